/* Owns how many calls of each kind run at once, and which of them are too slow. Must not know: processes,
 * frames, what becomes of a call. */
#include "lib/agent/files/seats.h"

#include "lib/base/clock.h"

#define SILENT_LOOK_MS 60000       /* how long a look may be silent */
#define RATE_LEAST     (32u << 10) /* a transfer that others wait for has to move so much between two looks */

/* More watches than the keeper lets live: those that were cancelled may still be about to end. */
static const unsigned running_max[FILE_PLACES] = {
    [FILE_SHORT] = 8,  [FILE_LOOK] = 8,   [FILE_DOWNLOAD] = 8, [FILE_PARKED] = 16,
    [FILE_UPLOAD] = 8, [FILE_SEARCH] = 8, [FILE_WATCH] = 80,
};

bool seats_have_room(struct seats *seats, int place)
{
    if (seats->running[place] < running_max[place])
        return true;
    seats->wanted_ms[place] = clock_boottime_ms();
    return false;
}

void seats_change(struct seats *seats, struct seat *seat, int place)
{
    if (seat->place != NO_PLACE)
        seats->running[seat->place]--;
    seat->place = place;
    if (place != NO_PLACE)
        seats->running[place]++;
}

static bool is_wanted(const struct seats *seats, int place)
{
    return seats->wanted_ms[place] > 0 && seats->wanted_ms[place] >= clock_boottime_ms() - SEAT_LOOK_MS;
}

enum seat_rate seats_rate(const struct seats *seats, struct seat *seat, const struct file_kind *kind,
                          uint64_t moved, bool all_here)
{
    int most = seat->place == FILE_LOOK ? SILENT_LOOK_MS : kind->silence_ms;
    bool transfers = seat->place == FILE_DOWNLOAD || (seat->place == FILE_UPLOAD && !all_here);
    seat->silent_ms = moved == seat->seen ? seat->silent_ms + SEAT_LOOK_MS : 0;
    if (seat->silent_ms >= most)
        return SEAT_IS_SILENT;
    bool is_slow = transfers && moved - seat->seen < RATE_LEAST && is_wanted(seats, seat->place);
    return is_slow ? SEAT_IS_SLOW : SEAT_GOES_ON;
}
