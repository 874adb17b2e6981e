/* Deadlines run on CLOCK_BOOTTIME, stamps on CLOCK_REALTIME. A jump of the wall clock fires nothing. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_boottime_us(void);
int64_t clock_boottime_ms(void);
int64_t clock_wall_us(void); /* microseconds since the epoch */
int64_t clock_wall_s(void);
#define CLOCK_TEXT_SIZE 33
/* ISO 8601, UTC, microseconds: 2026-01-31T12:00:00.000000+00:00 */
void clock_format(int64_t wall_us, char text[static CLOCK_TEXT_SIZE]);
#define CLOCK_BOOT_ID_SIZE 37
/* The kernel's boot id: two reads in one boot are equal. */
void clock_boot_id(char text[static CLOCK_BOOT_ID_SIZE]);

#endif
