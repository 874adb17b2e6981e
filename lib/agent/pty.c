/* Owns opening, sizing and asking of pseudo terminals, all through the master. Knows nothing of who reads or
 * writes them. */
#include "lib/agent/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

static int open_slave(int master)
{
    int unlocked = 0;
    if (ioctl(master, TIOCSPTLCK, &unlocked) < 0)
        return -1;
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave >= 0)
        return slave;
    char name[64];
    return ptsname_r(master, name, sizeof name) ? -1 : open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

/* Erasing takes whole UTF-8 characters. */
static void set_utf8(int master)
{
    struct termios mode;
    if (tcgetattr(master, &mode) < 0)
        return;
    mode.c_iflag |= IUTF8;
    tcsetattr(master, TCSANOW, &mode);
}

int pty_open(uint16_t rows, uint16_t cols, int *ret_master, int *ret_slave, struct error *err)
{
    _cleanup_close_ int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    int slave = master < 0 ? -1 : open_slave(master);
    if (slave < 0) {
        int number = errno;
        error_errno(err, ERROR_DRIVER, number, "terminal");
        errno = number;
        return -1;
    }
    set_utf8(master);
    pty_resize(master, rows, cols);
    *ret_master = STEAL_FD(master);
    *ret_slave = slave;
    return 0;
}

void pty_resize(int master, uint16_t rows, uint16_t cols)
{
    struct winsize size = { .ws_row = rows ? rows : 24, .ws_col = cols ? cols : 80 };
    ioctl(master, TIOCSWINSZ, &size);
}

char pty_eof_character(int master)
{
    struct termios mode;
    if (tcgetattr(master, &mode) < 0 || mode.c_cc[VEOF] == _POSIX_VDISABLE)
        return '\004';
    return (char)mode.c_cc[VEOF];
}

bool pty_ends_line(int master, char byte)
{
    struct termios mode;
    if (byte == '\n' || tcgetattr(master, &mode) < 0)
        return byte == '\n';
    if (byte == '\r')
        return mode.c_iflag & ICRNL;
    cc_t code = (cc_t)byte;
    return code != _POSIX_VDISABLE &&
           (code == mode.c_cc[VEOF] || code == mode.c_cc[VEOL] || code == mode.c_cc[VEOL2] ||
            ((mode.c_lflag & ISIG) && (code == mode.c_cc[VINTR] || code == mode.c_cc[VQUIT])) ||
            code == mode.c_cc[VKILL]);
}

bool pty_signal(int master, int signal_number)
{
    if (signal_number != SIGINT && signal_number != SIGQUIT && signal_number != SIGTSTP)
        return false;
    /* The kernel looks the group up and signals it in one step: no number can go stale in between. */
    return ioctl(master, TIOCSIG, signal_number) == 0;
}
