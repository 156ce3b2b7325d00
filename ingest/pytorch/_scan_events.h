/* One event from its text: its parts and arguments, and what becomes of it. */

#ifndef KERNELDB_SCAN_EVENTS_H
#define KERNELDB_SCAN_EVENTS_H

#include "_scan_layout.h"

enum { IN_GROUP, META, SKIPPED };                   /* what becomes of an event */

typedef struct {
    Span ph, cat, name, pid, tid, args; /* of no size: not there */
    Number ts, dur;
    bool has_ts, has_dur, name_escaped, read;
    uint64_t present;
    Category *category;
    int unread;
    Span text[FIELDS];
    Number number[FIELDS];
    Key *counted[FIELDS];
} Event;

/* An event of which nothing is known. Member by member: to clear all of it takes a tenth of the scan. */
static inline void forget(Event *event) {
    const Span nothing = {(const Byte *)"", 0};
    event->ph = event->cat = event->name = event->pid = event->tid = event->args = nothing;
    event->has_ts = event->has_dur = event->name_escaped = event->read = false;
    event->present = 0;
    event->category = NULL;
    event->unread = 0;
}

static Category *category_of(Scanner *scanner, Span raw) {
    Category *last = &scanner->category[scanner->last];
    if (last->size == raw.size && !memcmp(last->name, raw.at, raw.size))
        return last;
    for (int i = 0; i < scanner->categories; i++) {
        Category *category = &scanner->category[i];
        if (category->size == raw.size && !memcmp(category->name, raw.at, raw.size)) {
            scanner->last = i;
            return category;
        }
    }
    return NULL;
}

/* What becomes of an event, by phase, category and name; for IN_GROUP, `category` is set. */
static int destiny(Scanner *scanner, Event *event) {
    if (event->ph.size != 3)
        return SKIPPED;
    switch (event->ph.at[1]) {
    case 'X':
        event->category = event->cat.size ? category_of(scanner, event->cat) : NULL;
        if (!event->category)
            event->category = &scanner->category[scanner->other];
        return IN_GROUP;
    case 'i':
        if (!is(event->name, "\"[memory]\""))
            return META;
        event->category = &scanner->category[scanner->memory];
        return IN_GROUP;
    case 'M':
    case 'C':
    case 'I':
        return META;
    default:
        return SKIPPED;
    }
}

static Key *key_of(Scanner *scanner, Category *category, Span name, Key **previous) {
    uint32_t guess = *previous ? (*previous)->next : 0;
    Key *found = NULL;
    if (guess < category->count && category->keys[guess].size == name.size &&
        !memcmp(category->keys[guess].name, name.at, name.size))
        found = &category->keys[guess];
    for (uint32_t i = 0; !found && i < category->count; i++)
        if (category->keys[i].size == name.size && !memcmp(category->keys[i].name, name.at, name.size))
            found = &category->keys[i];
    if (!found) {
        if (category->count == category->known + UNREAD)
            return NULL;
        Byte *copy = malloc(name.size + 1);
        if (!copy) {
            scanner->starved = true;
            return NULL;
        }
        memcpy(copy, name.at, name.size);
        found = &category->keys[category->count++];
        *found = (Key){.name = copy, .size = (uint32_t)name.size, .field = -1};
    }
    if (*previous)
        (*previous)->next = (uint32_t)(found - category->keys);
    *previous = found;
    return found;
}

/* Behind the string at `p`, whose text, quotes included, is `*span`, or NULL. */
static inline const Byte *quoted(const Byte *p, const Byte *end, bool lenient, Span *span, bool *escaped) {
    if (p >= end || *p != '"')
        return NULL;
    *escaped = false;
    const Byte *behind = string(p + 1, end, lenient, escaped);
    if (behind)
        *span = (Span){p, (size_t)(behind - p)};
    return behind;
}

/* Behind the colon of the member whose name, without quotes, is `*name`, or NULL. */
static inline const Byte *member(const Byte *p, const Byte *end, Span *name) {
    bool escaped;
    p = quoted(p, end, false, name, &escaped);
    if (!p || escaped)
        return NULL;
    *name = (Span){name->at + 1, name->size - 2};
    p = blanks(p, end);
    return p < end && *p == ':' ? blanks(p + 1, end) : NULL;
}

static bool fits(const Number *number, int kind) {
    if (!number->usual || (kind != FLOAT && number->decimals))
        return false;
    return kind == FLOAT || (kind == UNSIGNED ? !number->negative : number->mantissa <= INT64_MAX);
}

/* Behind the argument of `key` at `p`, or NULL where it is none that is usual. */
static const Byte *argument(Event *event, Key *key, const Byte *p, const Byte *end, bool lenient) {
    uint64_t bit = 1ull << key->field;
    if (event->present & bit)
        return NULL;
    const Byte *behind;
    if (key->kind == TEXT)
        behind = value(p, end, lenient, 2);
    else if (p < end && *p == 'n')
        return literal(p, end, "null");
    else {
        behind = numeral(p, end, &event->number[key->field]);
        if (behind && !fits(&event->number[key->field], key->kind))
            return NULL;
    }
    if (behind) {
        event->present |= bit;
        event->text[key->field] = (Span){p, (size_t)(behind - p)};
    }
    return behind;
}

/* Behind the arguments at `p`, or NULL where they are no object, or not usual. */
static const Byte *arguments(Scanner *scanner, Event *event, const Byte *p, const Byte *end, bool lenient) {
    const Byte *start = p;
    Category *category = event->category;
    Key *previous = NULL;
    event->read = true;
    if (p >= end || *p != '{')
        return NULL;
    p = blanks(p + 1, end);
    if (p < end && *p == '}')
        p++;
    else
        for (;;) {
            Span name;
            p = member(p, end, &name);
            Key *key = p ? key_of(scanner, category, name, &previous) : NULL;
            if (!key)
                return NULL;
            if (key->field >= 0)
                p = argument(event, key, p, end, lenient);
            else {
                if (event->unread == FIELDS)
                    return NULL;
                event->counted[event->unread++] = key;
                p = value(p, end, lenient, 2);
            }
            if (!p)
                return NULL;
            p = blanks(p, end);
            if (p >= end)
                return NULL;
            if (*p++ == '}')
                break;
            if (p[-1] != ',')
                return NULL;
            p = blanks(p, end);
        }
    event->args = (Span){start, (size_t)(p - start)};
    return p;
}

/* Behind the string, number or null at `p`. */
static const Byte *scalar(const Byte *p, const Byte *end, bool lenient, Span *span, bool *escaped) {
    *escaped = false;
    if (p < end && *p == '"')
        return quoted(p, end, lenient, span, escaped);
    Number number;
    const Byte *behind = p < end && *p == 'n' ? literal(p, end, "null") : numeral(p, end, &number);
    if (!behind || (*p != 'n' && !number.usual))
        return NULL;
    *span = (Span){p, (size_t)(behind - p)};
    return behind;
}

static const Byte *time_of(const Byte *p, const Byte *end, Number *number, bool *has) {
    *has = p < end && *p != 'n';
    if (!*has)
        return literal(p, end, "null");
    p = numeral(p, end, number);
    return p && number->usual ? p : NULL;
}

/* Behind the value of an event's member, or NULL. */
static const Byte *part(Scanner *scanner, Event *event, Span name, const Byte *p, const Byte *end, bool lenient) {
    bool escaped;
    if (is(name, "ph") || is(name, "cat")) {
        p = event->read ? NULL : quoted(p, end, false, name.size == 2 ? &event->ph : &event->cat, &escaped);
        return p && !escaped ? p : NULL;
    }
    if (is(name, "name"))
        return event->read ? NULL : scalar(p, end, lenient, &event->name, &event->name_escaped);
    if (is(name, "pid"))
        return scalar(p, end, lenient, &event->pid, &escaped);
    if (is(name, "tid"))
        return scalar(p, end, lenient, &event->tid, &escaped);
    if (is(name, "ts"))
        return time_of(p, end, &event->ts, &event->has_ts);
    if (is(name, "dur"))
        return time_of(p, end, &event->dur, &event->has_dur);
    if (!is(name, "args"))
        return value(p, end, lenient, 1);
    if (event->args.size)
        return NULL;
    if (event->ph.size == 3 && event->ph.at[1] == 'X' && event->cat.size && event->name.size) {
        destiny(scanner, event);
        return arguments(scanner, event, p, end, lenient);
    }
    const Byte *behind = value(p, end, lenient, 1);
    if (behind)
        event->args = (Span){p, (size_t)(behind - p)};
    return behind;
}

/* Behind the event at `p`, or NULL where it is none that is usual; `*what` becomes of it. */
static const Byte *event_at(Scanner *scanner, const Byte *p, const Byte *end, bool lenient, Event *event, int *what) {
    if (p >= end || *p != '{')
        return NULL;
    p = blanks(p + 1, end);
    for (;;) {
        Span name;
        p = member(p, end, &name);
        p = p ? part(scanner, event, name, p, end, lenient) : NULL;
        if (!p)
            return NULL;
        p = blanks(p, end);
        if (p >= end)
            return NULL;
        if (*p++ == '}')
            break;
        if (p[-1] != ',')
            return NULL;
        p = blanks(p, end);
    }
    if (!event->ph.size || (event->ph.at[1] == 'i' && event->name_escaped))
        return NULL;
    *what = destiny(scanner, event);
    if (*what == IN_GROUP && event->args.size && !event->read)
        return arguments(scanner, event, event->args.at, event->args.at + event->args.size, lenient) ? p : NULL;
    return p;
}

#endif
