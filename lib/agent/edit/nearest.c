/* Owns: likeness. Lines of wanted that the text has vote for the place where wanted would stand; where none
 * do, single lines are compared by the pairs of bytes that they share. One pass over the text each, whatever
 * it holds. It must not know: what is told to whom. */
#include "lib/agent/edit/nearest.h"

#include "lib/base/memory.h"

enum {
    VOTERS = 256,       /* lines of wanted that vote */
    SLOTS = 1024,       /* of the table of their hashes */
    VOTE_MOST = 40,     /* a long line says no more than this */
    VOTES_PERCENT = 30, /* of wanted that a place must have */
    PAIRS = 4096,
    COMPARED = 400,     /* bytes of a line */
    LIKENESS_LEAST = 50 /* percent */
};

/* ---- places by votes of equal lines ---- */

struct voter {
    uint64_t hash;
    size_t line;
    uint32_t weight;
    struct voter *next;
};

struct ballot {
    struct voter voters[VOTERS];
    struct voter *slots[SLOTS];
    size_t count, lines; /* of wanted */
    uint32_t total;
};

static void ballot_fill(struct ballot *ballot, struct bytes wanted)
{
    struct bytes line;
    for (size_t at = 0; line_next(wanted, &at, &line); ballot->lines++) {
        size_t length = line_trim(line).length;
        if (length == 0 || ballot->count == VOTERS)
            continue;
        struct voter *voter = &ballot->voters[ballot->count++];
        *voter = (struct voter){ line_hash(line, LINES_SQUEEZED), ballot->lines,
                                 (uint32_t)(length < VOTE_MOST ? length : VOTE_MOST), NULL };
        ballot->total += voter->weight;
        voter->next = ballot->slots[voter->hash % SLOTS];
        ballot->slots[voter->hash % SLOTS] = voter;
    }
}

static void count_votes(const struct ballot *ballot, struct bytes text, uint32_t *votes)
{
    struct bytes line;
    size_t index = 0;
    for (size_t at = 0; line_next(text, &at, &line); index++) {
        uint64_t hash = line_hash(line, LINES_SQUEEZED);
        int asked = 0; /* a line that wanted has many times says little */
        for (const struct voter *v = ballot->slots[hash % SLOTS]; v != NULL && asked < 16;
             v = v->next, asked++)
            if (v->hash == hash && v->line <= index)
                votes[index - v->line] += v->weight;
    }
}

/* Keeps the best three that do not overlap; ret[].at holds the votes meanwhile. */
static size_t choose(const uint32_t *votes, size_t lines, const struct ballot *ballot, struct nearest *ret)
{
    size_t count = 0;
    while (count < NEAREST_MOST) {
        size_t best = lines;
        for (size_t i = 0; i < lines; i++) {
            bool is_taken = false;
            for (size_t j = 0; j < count; j++)
                is_taken |= i < ret[j].first + ballot->lines && ret[j].first < i + ballot->lines;
            if (!is_taken && votes[i] > 0 && (best == lines || votes[i] > votes[best]))
                best = i;
        }
        if (best == lines || (uint64_t)votes[best] * 100 < (uint64_t)ballot->total * VOTES_PERCENT)
            break;
        ret[count++] = (struct nearest){ .first = best, .last = best + ballot->lines - 1 };
    }
    return count;
}

/* Looks at the lines of one place: which is the first that differs, and is the text long enough? */
static void describe(struct bytes text, struct bytes wanted, struct nearest *place)
{
    struct bytes line, other;
    size_t at = 0, other_at = 0;
    bool found = false;
    for (size_t i = 0; i <= place->last && line_next(text, &at, &line); i++) {
        if (i < place->first)
            continue;
        bool differs = !line_next(wanted, &other_at, &other) || !line_same(line, other, LINES_SQUEEZED);
        if (i == place->first || (differs && !found)) {
            place->line = i;
            place->content = line;
            place->at = (size_t)(line.data - text.data);
            found = differs;
        }
        if (at == text.length)
            place->last = i;
    }
}

static size_t find_places(struct bytes text, struct bytes wanted, struct nearest *ret)
{
    _cleanup_free_ struct ballot *ballot = xcalloc(1, sizeof(*ballot));
    size_t lines = lines_count_ends(text) + 1;
    _cleanup_free_ uint32_t *votes = xcalloc(lines, sizeof(*votes));
    ballot_fill(ballot, wanted);
    count_votes(ballot, text, votes);
    size_t count = choose(votes, lines, ballot, ret);
    for (size_t i = 0; i < count; i++)
        describe(text, wanted, &ret[i]);
    return count;
}

/* ---- single lines by likeness ---- */

struct pairs {
    uint8_t wanted[PAIRS], left[PAIRS];
    uint32_t seen[PAIRS], round; /* left[] holds for this line where seen[] is round */
    size_t count;
};

static size_t pair_at(struct bytes line, size_t i)
{
    return ((unsigned char)line.data[i] * 31u + (unsigned char)line.data[i + 1] * 257u) % PAIRS;
}

static struct bytes compared_part(struct bytes line)
{
    struct bytes part = line_trim(line);
    return bytes_cut(part, 0, part.length < COMPARED ? part.length : COMPARED);
}

static void pairs_fill(struct pairs *pairs, struct bytes line)
{
    for (size_t i = 0; i + 1 < line.length; i++)
        if (pairs->wanted[pair_at(line, i)] < UINT8_MAX) {
            pairs->wanted[pair_at(line, i)]++;
            pairs->count++;
        }
}

/* In percent (Dice's coefficient). */
static size_t likeness(struct pairs *pairs, struct bytes line)
{
    size_t common = 0;
    pairs->round++;
    for (size_t i = 0; i + 1 < line.length; i++) {
        size_t pair = pair_at(line, i);
        if (pairs->seen[pair] != pairs->round) {
            pairs->seen[pair] = pairs->round;
            pairs->left[pair] = pairs->wanted[pair];
        }
        common += pairs->left[pair] > 0;
        pairs->left[pair] -= pairs->left[pair] > 0;
    }
    size_t all = pairs->count + (line.length > 0 ? line.length - 1 : 0);
    return all > 0 ? 200 * common / all : 0;
}

static struct bytes longest_line(struct bytes wanted)
{
    struct bytes line, longest = { "", 0 };
    for (size_t at = 0; line_next(wanted, &at, &line);)
        longest = line_trim(line).length > longest.length ? line_trim(line) : longest;
    return longest;
}

static size_t find_lines_like(struct bytes text, struct bytes wanted, struct nearest *ret)
{
    _cleanup_free_ struct pairs *pairs = xcalloc(1, sizeof(*pairs));
    size_t count = 0, index = 0, scores[NEAREST_MOST + 1];
    struct bytes line;
    struct nearest kept[NEAREST_MOST + 1] = { { .first = 0 } };
    pairs_fill(pairs, compared_part(longest_line(wanted)));
    for (size_t at = 0; line_next(text, &at, &line); index++) {
        size_t score = likeness(pairs, compared_part(line)), place = count;
        if (score < LIKENESS_LEAST)
            continue;
        for (; place > 0 && scores[place - 1] < score; place--) {
            scores[place] = scores[place - 1];
            kept[place] = kept[place - 1];
        }
        scores[place] = score;
        kept[place] = (struct nearest){ index, index, index, (size_t)(line.data - text.data), line };
        count += count < NEAREST_MOST;
    }
    memcpy(ret, kept, count * sizeof(*ret));
    return count;
}

size_t nearest_find(struct bytes text, struct bytes wanted, struct nearest ret[static NEAREST_MOST])
{
    size_t count = find_places(text, wanted, ret);
    return count > 0 ? count : find_lines_like(text, wanted, ret);
}
