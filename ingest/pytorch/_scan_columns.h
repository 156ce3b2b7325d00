/* Events into rows of columns, as far as they are usual. */

#ifndef KERNELDB_SCAN_COLUMNS_H
#define KERNELDB_SCAN_COLUMNS_H

#include "_scan_events.h"

enum { SOON = 1 << 16 }; /* bytes behind an unusual event that are read without giving up the lock: where one is, more are */

static bool put_null(Column *column, uint32_t row, size_t width) {
    const uint64_t nothing = 0;
    return put(&column->data, &nothing, width) && PUT(&column->nulls, row);
}

static bool put_number(Column *column, const Number *number, int kind, uint32_t row) {
    if (kind == FLOAT) {
        double value = number ? real(number) : NAN;
        column->any |= number != NULL;
        return PUT(&column->data, value);
    }
    if (!number)
        return put_null(column, row, sizeof(uint64_t));
    column->any = true;
    uint64_t value = number->negative ? 0 - number->mantissa : number->mantissa;
    return PUT(&column->data, value);
}

static bool put_key(Buffer *scratch, Span part, bool first) {
    return (first || put(scratch, "", 1)) && put(scratch, part.at, part.size);
}

static bool put_code(Scanner *scanner, Code *code, const Event *event, uint32_t row) {
    Buffer *scratch = &scanner->scratch;
    bool first = true, any = !code->optional;
    scratch->size = 0;
    if (code->heads & HAS_CATEGORY) {
        if (!put_key(scratch, event->cat, first))
            return false;
        first = false;
    }
    if (code->heads & HAS_NAME) {
        if (!put_key(scratch, event->name, first))
            return false;
        first = false;
    }
    for (int i = 0; i < code->fields; i++) {
        int field = code->field[i];
        Span part = event->present >> field & 1 ? event->text[field] : (Span){(const Byte *)"", 0};
        any |= part.size > 0;
        if (!put_key(scratch, part, first))
            return false;
        first = false;
    }
    if (!any)
        return put_null(&code->column, row, sizeof(uint32_t));
    int64_t given = coded(&scanner->codes[code->table], scratch->data, scratch->size, scanner->most_keys, scanner->seed);
    uint32_t value = (uint32_t)given;
    code->column.any = true;
    return given >= 0 && PUT(&code->column.data, value);
}

static bool put_thread(Scanner *scanner, Group *group, const Event *event) {
    scanner->scratch.size = 0;
    if (!put_key(&scanner->scratch, event->pid, true) || !put_key(&scanner->scratch, event->tid, false))
        return false;
    int64_t given = coded(scanner->codes, scanner->scratch.data, scanner->scratch.size, scanner->most_keys, scanner->seed);
    uint32_t value = (uint32_t)given;
    return given >= 0 && PUT(&group->thread.data, value);
}

static void count_unread(const Event *event, uint64_t number) {
    for (int i = 0; i < event->unread; i++) {
        event->counted[i]->count += event->counted[i]->event != number; /* a name that is there twice counts once */
        event->counted[i]->event = number;
    }
}

static bool put_row(Scanner *scanner, Event *event, int64_t ns) {
    Category *category = event->category;
    Group *group = &scanner->group[category->group];
    const Number *numbers[FIELDS];
    uint32_t row = group->rows++;
    for (int i = 0; i < group->numbers; i++)
        numbers[i] = NULL;
    count_unread(event, scanner->events + 1);
    bool kept = event->has_ts ? PUT(&group->ts.data, ns) : put_null(&group->ts, row, sizeof ns);
    if (group->has_durations)
        kept = kept && put_number(&group->dur, event->has_dur ? &event->dur : NULL, FLOAT, row);
    kept = kept && put_thread(scanner, group, event);
    for (uint32_t i = 0; i < category->known; i++) {
        Key *key = &category->keys[i];
        if (key->kind != TEXT && event->present >> key->field & 1 && !numbers[key->number])
            numbers[key->number] = &event->number[key->field];
    }
    for (int i = 0; kept && i < group->numbers; i++)
        kept = put_number(&group->number[i], numbers[i], group->kinds[i], row);
    for (int i = 0; kept && i < group->codes; i++)
        kept = put_code(scanner, &group->code[i], event, row);
    if (kept && category->keeps_args && event->args.size) {
        uint64_t size = event->args.size;
        kept = PUT(&group->args, row) && PUT(&group->args, size) && put(&group->args, event->args.at, size);
    }
    return kept;
}

/* Count an event of a phase that has no table: (count, size, phase, NUL, category) one behind the other. */
static bool count_skipped(Scanner *scanner, const Event *event) {
    Buffer *skipped = &scanner->skipped, *key = &scanner->scratch;
    key->size = 0;
    if (!put_key(key, event->ph, true) || !put_key(key, event->cat, false))
        return false;
    uint64_t size = key->size, count = 1, known;
    for (size_t at = 0; at < skipped->size; at += 16 + known) {
        memcpy(&known, skipped->data + at + 8, 8);
        if (known == size && !memcmp(skipped->data + at + 16, key->data, size)) {
            memcpy(&count, skipped->data + at, 8);
            count++;
            memcpy(skipped->data + at, &count, 8);
            return true;
        }
    }
    return PUT(skipped, count) && PUT(skipped, size) && put(skipped, key->data, size);
}

/* Whether an event seems to begin here; where not, `Boundary.split` would not cut either. */
static bool begins(const Byte *p, const Byte *end) {
    Span name;
    return *p == '{' && member(blanks(p + 1, end), end, &name);
}

/* How far the events between `p` and `end` are usual: `end`, or where the first one begins that is not, or that begins
   at `pause` or behind, and then `*paused` is set. */
static const Byte *scan(Scanner *scanner, const Byte *p, const Byte *end, const Byte *pause, bool lenient, bool *paused) {
    Event event;
    for (;;) {
        p = blanks(p, end);
        if (p >= end)
            return end;
        *paused = p >= pause;
        if (*paused)
            return p;
        int what;
        int64_t ns = 0;
        forget(&event);
        const Byte *behind = event_at(scanner, p, end, lenient, &event, &what);
        if (!behind || (event.has_ts && !nanoseconds(&event.ts, &ns)))
            return p;
        const Byte *next = blanks(behind, end);
        if (next < end && *next == ',')
            next = blanks(next + 1, end);
        else if (next < end)
            return p;
        if (next < end ? !begins(next, end) : next != behind && next[-1] == ',')
            return p;
        if (what == SKIPPED && scanner->skipped.size > 1 << 16)
            return p;
        bool kept = what == IN_GROUP  ? put_row(scanner, &event, ns)
                    : what == SKIPPED ? count_skipped(scanner, &event)
                                      : (!scanner->meta.size || put(&scanner->meta, ",", 1)) &&
                                            put(&scanner->meta, p, (size_t)(behind - p));
        if (!kept) {
            scanner->starved = true;
            return p;
        }
        if (event.cat.size) {
            Category *category = what == IN_GROUP ? event.category : category_of(scanner, event.cat);
            scanner->old |= category && category->old;
        }
        scanner->events++;
        p = next;
    }
}

#endif
