/* Owns: which clock is asked for what. It must not know: timers. Dates are computed here, because gmtime_r(3)
 * takes the lock of the time zone, which a child between fork and exec must not. */
#include "lib/base/clock.h"

#include "lib/base/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

static int64_t clock_us(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_boottime_us(void)
{
    return clock_us(CLOCK_BOOTTIME);
}

int64_t clock_boottime_ms(void)
{
    return clock_us(CLOCK_BOOTTIME) / 1000;
}

int64_t clock_wall_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

int64_t clock_wall_s(void)
{
    return clock_us(CLOCK_REALTIME) / 1000000;
}

static void put_digits(char *at, int64_t value, int digits)
{
    while (digits-- > 0) {
        at[digits] = (char)('0' + value % 10);
        value /= 10;
    }
}

/* Days since 1970-01-01 to a date of the proleptic Gregorian calendar; years begin in March, so that leap
 * days come last. */
static void put_date(char *at, int64_t days)
{
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153;
    put_digits(at, year_of_era + era * 400 + (month >= 10), 4);
    put_digits(at + 5, month < 10 ? month + 3 : month - 9, 2);
    put_digits(at + 8, day_of_year - (153 * month + 2) / 5 + 1, 2);
}

void clock_format(int64_t wall_us, char text[static CLOCK_TEXT_SIZE])
{
    static const int64_t day = 86400LL * 1000000, last = 253402300799999999; /* end of the year 9999 */
    int64_t us = wall_us < 0 ? 0 : wall_us > last ? last : wall_us;
    int64_t rest = us % day;
    memcpy(text, "0000-00-00T00:00:00.000000+00:00", CLOCK_TEXT_SIZE);
    put_date(text, us / day);
    put_digits(text + 11, rest / 3600000000, 2);
    put_digits(text + 14, rest / 60000000 % 60, 2);
    put_digits(text + 17, rest / 1000000 % 60, 2);
    put_digits(text + 20, rest % 1000000, 6);
}

void clock_boot_id(char text[static CLOCK_BOOT_ID_SIZE])
{
    _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, CLOCK_BOOT_ID_SIZE - 1) : 0;
    text[length > 0 ? length : 0] = '\0';
}
