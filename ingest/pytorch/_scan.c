/* Reads the events of a PyTorch trace into columns, in one pass over the text, with the interpreter's lock released.

   The layout of the columns comes from Python (native.py). What is unusual, or no JSON, is not decided here: the scan
   stops at such an event, native.py reads it the tolerant way and hands it back in the usual form. The text is
   untrusted: every access is bounded by `end`, nesting by DEPTH, tables by what Python asks for. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef unsigned char Byte;
typedef unsigned __int128 Wide;

enum { DEPTH = 64, FIELDS = 64, UNREAD = 512, DIGITS = 19, MANTISSA = 53 };
enum { TEXT, INT, UNSIGNED, FLOAT };                /* kinds of arguments */
enum { HAS_CATEGORY = 1, HAS_NAME = 2 };            /* what of the event a code stands for */
enum { IN_GROUP, META, SKIPPED };                   /* what becomes of an event */
enum { SOON = 1 << 16 }; /* bytes behind an unusual event that are read without giving up the lock: where one is, more are */
static const uint64_t FLOAT_LIMIT_US = 1ull << 43, SATURATED_US = 9000000000000000; /* values.py says why */

/* ---- memory ---- */

typedef struct {
    Byte *data;
    size_t size, room;
} Buffer;

static bool reserve(Buffer *buffer, size_t more) {
    size_t wanted = buffer->size + more;
    if (wanted <= buffer->room)
        return true;
    size_t room = buffer->room ? buffer->room : 1024;
    while (room < wanted)
        room *= 2;
    Byte *data = realloc(buffer->data, room);
    if (!data)
        return false;
    buffer->data = data;
    buffer->room = room;
    return true;
}

static bool put(Buffer *buffer, const void *data, size_t size) {
    if (!reserve(buffer, size))
        return false;
    if (size)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return true;
}

#define PUT(buffer, value) put(buffer, &(value), sizeof(value))

/* ---- text ---- */

typedef struct {
    const Byte *at;
    size_t size;
} Span;

static bool is(Span span, const char *text) { return span.size == strlen(text) && !memcmp(span.at, text, span.size); }

static inline const Byte *blanks(const Byte *p, const Byte *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* The first byte that is no ordinary one of a string: a quote, an escape, a control character, or none of ASCII. */
static inline const Byte *ordinary(const Byte *p, const Byte *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(' ');
    while (end - p >= 16) {
        __m128i text = _mm_loadu_si128((const __m128i *)p);
        __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(text, quote), _mm_cmpeq_epi8(text, slash));
        int found = _mm_movemask_epi8(_mm_or_si128(marks, _mm_cmplt_epi8(text, space)));
        if (found)
            return p + __builtin_ctz((unsigned)found);
        p += 16;
    }
#endif
    while (p < end && *p >= ' ' && *p < 0x80 && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* Behind one UTF-8 sequence of more than a byte, or NULL. */
static const Byte *utf8(const Byte *p, const Byte *end) {
    int more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
    if (*p < 0xc2 || *p > 0xf4 || end - p <= more)
        return NULL;
    uint32_t code = *p & (0x3f >> more);
    for (int i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return NULL;
        code = code << 6 | (p[i] & 0x3f);
    }
    bool overlong = code < (more == 3 ? 0x10000u : more == 2 ? 0x800u : 0x80u);
    return overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? NULL : p + more + 1;
}

static int hex4(const Byte *p, const Byte *end) {
    int value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int c = p[i] | 0x20;
        int digit = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Behind the escape whose backslash `p` is at, or NULL; one half of a surrogate pair only where `lenient`. */
static const Byte *escape(const Byte *p, const Byte *end, bool lenient) {
    if (end - p < 2)
        return NULL;
    if (p[1] != 'u')
        return memchr("\"\\/bfnrt", p[1], 8) ? p + 2 : NULL;
    int code = hex4(p + 2, end);
    if (code < 0)
        return NULL;
    if (code < 0xd800 || code > 0xdfff || lenient)
        return p + 6;
    int low = code < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8, end) : -1;
    return low >= 0xdc00 && low <= 0xdfff ? p + 12 : NULL;
}

/* Behind the closing quote of the string whose opening one is before `p`, or NULL; `*escaped` where it has escapes. */
static inline const Byte *string(const Byte *p, const Byte *end, bool lenient, bool *escaped) {
    for (;;) {
        p = ordinary(p, end);
        if (p >= end)
            return NULL;
        if (*p == '"')
            return p + 1;
        if (*p == '\\') {
            *escaped = true;
            p = escape(p, end, lenient);
        } else if (*p >= 0x80)
            p = utf8(p, end);
        else
            p = lenient && *p ? p + 1 : NULL;
        if (!p)
            return NULL;
    }
}

typedef struct {
    uint64_t mantissa;
    int digits, decimals;
    bool negative, usual; /* usual: no exponent, and no more digits than `mantissa` has room for */
} Number;

/* Behind the number at `p`, or NULL. */
static inline const Byte *numeral(const Byte *p, const Byte *end, Number *number) {
    *number = (Number){.usual = true};
    if (p < end && *p == '-') {
        number->negative = true;
        p++;
    }
    const Byte *first = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        number->mantissa = number->mantissa * 10 + (*p - '0');
    number->digits = p - first > DIGITS ? DIGITS + 1 : (int)(p - first);
    if (p == first || (*first == '0' && p - first > 1))
        return NULL;
    if (p < end && *p == '.') {
        const Byte *point = ++p;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            number->mantissa = number->mantissa * 10 + (*p - '0');
        if (p == point)
            return NULL;
        number->decimals = p - point > DIGITS ? DIGITS + 1 : (int)(p - point);
    }
    number->usual = number->digits + number->decimals <= DIGITS;
    if (p < end && (*p | 0x20) == 'e') {
        number->usual = false;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        const Byte *exponent = p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == exponent)
            return NULL;
    }
    return p;
}

static const uint64_t POWERS[DIGITS + 1] = {
    1ull, 10ull, 100ull, 1000ull, 10000ull, 100000ull, 1000000ull, 10000000ull, 100000000ull, 1000000000ull,
    10000000000ull, 100000000000ull, 1000000000000ull, 10000000000000ull, 100000000000000ull, 1000000000000000ull,
    10000000000000000ull, 100000000000000000ull, 1000000000000000000ull, 10000000000000000000ull};

/* The double nearest to a usual number: exact digits are divided, and rounded once. */
static double real(const Number *number) {
    uint64_t mantissa = number->mantissa, power = POWERS[number->decimals];
    double value;
    if (!mantissa)
        value = 0;
    else if (mantissa >> MANTISSA == 0 && power <= 1000000000000000ull) /* both are doubles */
        value = (double)mantissa / (double)power;
    else {
        int shift = __builtin_clzll(mantissa);
        Wide numerator = (Wide)(mantissa << shift) << 64, quotient = numerator / power;
        int bits = quotient >> 64 ? 128 - __builtin_clzll((uint64_t)(quotient >> 64))
                                  : 64 - __builtin_clzll((uint64_t)quotient);
        int extra = bits - MANTISSA; /* at least 11 */
        uint64_t kept = (uint64_t)(quotient >> extra);
        Wide rest = quotient - ((Wide)kept << extra), half = (Wide)1 << (extra - 1);
        if (rest > half || (rest == half && (numerator % power || (kept & 1))))
            kept++;
        value = ldexp((double)kept, extra - 64 - shift);
    }
    return number->negative ? -value : value;
}

/* Microseconds as whole ns, as `values.nanoseconds` says; false where that has to be asked. */
static bool nanoseconds(const Number *number, int64_t *ns) {
    uint64_t micros = number->mantissa / POWERS[number->decimals], rest = number->mantissa % POWERS[number->decimals];
    if (micros > SATURATED_US)
        return false;
    if (number->decimals > 3 && micros < FLOAT_LIMIT_US) {
        double value = real(number), whole = floor(value);
        *ns = (int64_t)whole * 1000 + (int64_t)rint((value - whole) * 1000);
        return true;
    }
    rest = number->decimals > 3 ? rest / POWERS[number->decimals - 3] : rest * POWERS[3 - number->decimals];
    *ns = (int64_t)(micros * 1000 + rest);
    if (number->negative)
        *ns = -*ns;
    return true;
}

static const Byte *literal(const Byte *p, const Byte *end, const char *text) {
    size_t size = strlen(text);
    return (size_t)(end - p) >= size && !memcmp(p, text, size) ? p + size : NULL;
}

/* Behind the value at `p`, which may be anything of JSON, or NULL. */
static const Byte *value(const Byte *p, const Byte *end, bool lenient, int depth) {
    bool escaped;
    Number number;
    if (p >= end || depth > DEPTH)
        return NULL;
    switch (*p) {
    case '"':
        return string(p + 1, end, lenient, &escaped);
    case 't':
        return literal(p, end, "true");
    case 'f':
        return literal(p, end, "false");
    case 'n':
        return literal(p, end, "null");
    case '[':
    case '{':
        break;
    default:
        return numeral(p, end, &number);
    }
    Byte closing = *p == '[' ? ']' : '}';
    p = blanks(p + 1, end);
    if (p < end && *p == closing)
        return p + 1;
    for (;;) {
        if (closing == '}') {
            if (p >= end || *p != '"' || !(p = string(p + 1, end, lenient, &escaped)))
                return NULL;
            p = blanks(p, end);
            if (p >= end || *p != ':')
                return NULL;
            p = blanks(p + 1, end);
        }
        p = value(p, end, lenient, depth + 1);
        if (!p)
            return NULL;
        p = blanks(p, end);
        if (p >= end)
            return NULL;
        if (*p == closing)
            return p + 1;
        if (*p != ',')
            return NULL;
        p = blanks(p + 1, end);
    }
}

/* ---- codes ---- */

typedef struct {
    uint64_t hash;
    size_t at;
    uint32_t size, code;
} Known;

/* Keys as written and their codes; `fresh` are the keys of codes that nobody asked for yet, each behind its size. */
typedef struct {
    uint32_t *slots, mask, given;
    Buffer known, keys, fresh;
} Codes;

static uint64_t hashed(const Byte *p, size_t size, uint64_t seed) {
    uint64_t hash = seed ^ size * 0x9e3779b97f4a7c15ull, word;
    for (; size >= 8; p += 8, size -= 8) {
        memcpy(&word, p, 8);
        Wide product = (Wide)(hash ^ word) * 0xd6e8feb86659fd93ull;
        hash = (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    word = 0;
    memcpy(&word, p, size);
    Wide product = (Wide)(hash ^ word ^ seed) * 0xa0761d6478bd642full;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static bool widened(Codes *codes) {
    uint32_t slots = codes->mask ? (codes->mask + 1) * 2 : 256;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return false;
    free(codes->slots);
    codes->slots = table;
    codes->mask = slots - 1;
    Known *known = (Known *)codes->known.data;
    for (uint32_t i = 0; i < codes->known.size / sizeof *known; i++) {
        uint32_t slot = (uint32_t)known[i].hash & codes->mask;
        while (table[slot])
            slot = (slot + 1) & codes->mask;
        table[slot] = i + 1;
    }
    return true;
}

/* The code of a key, or -1 where there is no memory. */
static int64_t coded(Codes *codes, const Byte *key, size_t size, uint32_t most, uint64_t seed) {
    size_t count = codes->known.size / sizeof(Known);
    if (count >= most) {
        codes->known.size = codes->keys.size = count = 0;
        memset(codes->slots, 0, ((size_t)codes->mask + 1) * sizeof *codes->slots);
    }
    if (count * 2 >= codes->mask && !widened(codes))
        return -1;
    if (size > UINT32_MAX)
        return -1;
    uint64_t hash = hashed(key, size, seed);
    uint32_t slot = (uint32_t)hash & codes->mask;
    for (; codes->slots[slot]; slot = (slot + 1) & codes->mask) {
        Known *known = (Known *)codes->known.data + codes->slots[slot] - 1;
        if (known->hash == hash && known->size == size && !memcmp(codes->keys.data + known->at, key, size))
            return known->code;
    }
    Known made = {hash, codes->keys.size, (uint32_t)size, codes->given};
    if (!put(&codes->keys, key, size) || !PUT(&codes->known, made) || !PUT(&codes->fresh, made.size) ||
        !put(&codes->fresh, key, size))
        return -1;
    codes->slots[slot] = (uint32_t)count + 1;
    return codes->given++;
}

/* ---- layout ---- */

typedef struct {
    Buffer data, nulls;
    bool any;
} Column;

typedef struct {
    Byte *name;
    uint32_t size, next; /* next: which one followed it the last time */
    int field, kind, number;
    uint64_t count, event;
} Key;

typedef struct {
    int table, heads, fields;
    bool optional;
    int field[FIELDS];
    Column column;
} Code;

typedef struct {
    int numbers, codes;
    int kinds[FIELDS];
    Column ts, dur, thread, number[FIELDS];
    Code *code;
    Buffer args;
    uint32_t rows;
    bool has_durations;
} Group;

/* A category and the arguments of its events: `known` ones come first in `keys`, those that are only counted behind. */
typedef struct {
    Byte *name;
    size_t size;
    int group;
    bool old, counts, keeps_args;
    Key *keys;
    uint32_t known, count;
} Category;

typedef struct {
    PyObject_HEAD
    int groups, categories, tables, other, memory, last;
    Group *group;
    Category *category;
    Codes *codes;
    uint32_t most_keys;
    uint64_t seed, events;
    bool old, busy, starved;
    Buffer scratch, meta, skipped;
} Scanner;

/* ---- events ---- */

typedef struct {
    Span ph, cat, name, pid, tid, args;
    Number ts, dur;
    bool has_ts, has_dur, name_escaped, read;
    uint64_t present;
    Category *category;
    int unread;
    Span text[FIELDS];
    Number number[FIELDS];
    Key *counted[FIELDS];
} Event;

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

/* ---- columns ---- */

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
    const Number *numbers[FIELDS] = {NULL};
    uint32_t row = group->rows++;
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
        memset(&event, 0, offsetof(Event, text));
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

/* ---- Python ---- */

static PyObject *Scanner_scan(PyObject *self, PyObject *args) {
    Scanner *scanner = (Scanner *)self;
    Py_buffer text;
    Py_ssize_t start, end;
    int lenient = 0, soon = 0;
    bool paused = true;
    if (!PyArg_ParseTuple(args, "y*nn|pp", &text, &start, &end, &lenient, &soon))
        return NULL;
    if (start < 0 || end < start || end > text.len || scanner->busy) {
        PyBuffer_Release(&text);
        PyErr_SetString(PyExc_ValueError, "the text has no such part, or another thread is reading");
        return NULL;
    }
    const Byte *data = text.buf, *reached;
    scanner->busy = true;
    reached = data + start;
    if (soon)
        reached = scan(scanner, reached, data + end, end - start > SOON ? reached + SOON : data + end, lenient, &paused);
    if (paused) {
        Py_BEGIN_ALLOW_THREADS
        reached = scan(scanner, reached, data + end, data + end, lenient, &paused);
        Py_END_ALLOW_THREADS
    }
    scanner->busy = false;
    Py_ssize_t offset = reached - data;
    PyBuffer_Release(&text);
    if (scanner->starved) {
        scanner->starved = false;
        return PyErr_NoMemory();
    }
    return PyLong_FromSsize_t(offset);
}

static PyObject *bytes_of(Buffer *buffer) {
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)buffer->data, (Py_ssize_t)buffer->size);
    buffer->size = 0;
    return bytes;
}

/* (values, places of NULL), or None where no value is known. */
static PyObject *column_of(Column *column) {
    if (!column->any) {
        column->data.size = column->nulls.size = 0;
        Py_RETURN_NONE;
    }
    column->any = false;
    return Py_BuildValue("NN", bytes_of(&column->data), bytes_of(&column->nulls));
}

static bool append(PyObject *list, PyObject *item) {
    bool done = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
}

static PyObject *fresh_of(Codes *codes) {
    PyObject *list = PyList_New(0);
    uint32_t size;
    for (size_t at = 0; list && at < codes->fresh.size; at += sizeof size + size) {
        memcpy(&size, codes->fresh.data + at, sizeof size);
        if (!append(list, PyBytes_FromStringAndSize((const char *)codes->fresh.data + at + sizeof size, size)))
            Py_CLEAR(list);
    }
    codes->fresh.size = 0;
    return list;
}

static PyObject *args_of(Group *group) {
    PyObject *list = PyList_New(0);
    uint32_t row;
    uint64_t size;
    for (size_t at = 0; list && at < group->args.size; at += sizeof row + sizeof size + size) {
        memcpy(&row, group->args.data + at, sizeof row);
        memcpy(&size, group->args.data + at + sizeof row, sizeof size);
        const char *text = (const char *)group->args.data + at + sizeof row + sizeof size;
        if (!append(list, Py_BuildValue("Iy#", row, text, (Py_ssize_t)size)))
            Py_CLEAR(list);
    }
    group->args.size = 0;
    return list;
}

/* (rows, ts, dur, thread, numbers, codes, args) */
static PyObject *group_of(Group *group) {
    PyObject *numbers = PyList_New(0), *codes = PyList_New(0);
    group->ts.any = group->thread.any = group->rows > 0;
    for (int i = 0; numbers && i < group->numbers; i++)
        if (!append(numbers, column_of(&group->number[i])))
            Py_CLEAR(numbers);
    for (int i = 0; codes && i < group->codes; i++)
        if (!append(codes, column_of(&group->code[i].column)))
            Py_CLEAR(codes);
    unsigned rows = group->rows;
    group->rows = 0;
    return Py_BuildValue("INNNNNN", rows, column_of(&group->ts), column_of(&group->dur), column_of(&group->thread),
                         numbers, codes, args_of(group));
}

static PyObject *skipped_of(Buffer *skipped) {
    PyObject *list = PyList_New(0);
    uint64_t count, size;
    for (size_t at = 0; list && at < skipped->size; at += 16 + size) {
        memcpy(&count, skipped->data + at, 8);
        memcpy(&size, skipped->data + at + 8, 8);
        const char *key = (const char *)skipped->data + at + 16;
        if (!append(list, Py_BuildValue("y#K", key, (Py_ssize_t)size, (unsigned long long)count)))
            Py_CLEAR(list);
    }
    skipped->size = 0;
    return list;
}

/* Forgets the arguments that are only counted; (category, argument, events) of each where `list` is given. */
static bool forget_unread(Scanner *scanner, PyObject *list) {
    bool done = true;
    for (int i = 0; i < scanner->categories; i++) {
        Category *category = &scanner->category[i];
        for (uint32_t j = category->known; j < category->count; j++) {
            Key *key = &category->keys[j];
            if (list && category->counts && key->count)
                done = done && append(list, Py_BuildValue("iy#K", i, (const char *)key->name, (Py_ssize_t)key->size,
                                                          (unsigned long long)key->count));
            free(key->name);
        }
        category->count = category->known;
    }
    return done;
}

static PyObject *Scanner_take(PyObject *self, PyObject *unused) {
    (void)unused;
    Scanner *scanner = (Scanner *)self;
    if (scanner->busy) {
        PyErr_SetString(PyExc_ValueError, "another thread is reading");
        return NULL;
    }
    PyObject *groups = PyList_New(0), *fresh = PyList_New(0), *unread = PyList_New(0);
    for (int i = 0; groups && i < scanner->groups; i++)
        if (!append(groups, group_of(&scanner->group[i])))
            Py_CLEAR(groups);
    for (int i = 0; fresh && i < scanner->tables; i++)
        if (!append(fresh, fresh_of(&scanner->codes[i])))
            Py_CLEAR(fresh);
    if (!forget_unread(scanner, unread))
        Py_CLEAR(unread);
    PyObject *old = PyBool_FromLong(scanner->old);
    unsigned long long events = scanner->events;
    scanner->old = false;
    scanner->events = 0;
    return Py_BuildValue("KNNNNNN", events, old, groups, fresh, skipped_of(&scanner->skipped), unread,
                         bytes_of(&scanner->meta));
}

/* Reads `((name, kind, number), …)` into the known keys of a category. */
static bool read_fields(Category *category, PyObject *fields) {
    Py_ssize_t count = PyTuple_Size(fields);
    if (count < 0 || count > FIELDS || !(category->keys = calloc((size_t)count + UNREAD, sizeof(Key))))
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name;
        Py_ssize_t size;
        Key *key = &category->keys[i];
        if (!PyArg_ParseTuple(PyTuple_GetItem(fields, i), "y#ii", &name, &size, &key->kind, &key->number))
            return false;
        if (!(key->name = malloc((size_t)size + 1)) || key->number >= FIELDS)
            return false;
        memcpy(key->name, name, (size_t)size);
        key->size = (uint32_t)size;
        key->field = (int)i;
        category->known = category->count = (uint32_t)i + 1;
    }
    return true;
}

static bool read_code(const Scanner *scanner, Code *code, PyObject *given) {
    PyObject *fields;
    int optional;
    if (!PyArg_ParseTuple(given, "iipO!", &code->table, &code->heads, &optional, &PyTuple_Type, &fields))
        return false;
    code->optional = optional;
    code->fields = (int)PyTuple_Size(fields);
    if (code->fields > FIELDS || code->table < 0 || code->table >= scanner->tables)
        return false;
    for (int i = 0; i < code->fields; i++) {
        code->field[i] = (int)PyLong_AsLong(PyTuple_GetItem(fields, i));
        if (code->field[i] < 0 || code->field[i] >= FIELDS)
            return false;
    }
    return true;
}

/* Reads `(kinds of numbers, codes, has_durations)`. */
static bool read_group(const Scanner *scanner, Group *group, PyObject *given) {
    PyObject *kinds, *codes;
    int has_durations;
    if (!PyArg_ParseTuple(given, "O!O!p", &PyTuple_Type, &kinds, &PyTuple_Type, &codes, &has_durations))
        return false;
    group->has_durations = has_durations;
    Py_ssize_t numbers = PyTuple_Size(kinds), count = PyTuple_Size(codes);
    if (numbers > FIELDS || !(group->code = calloc((size_t)count + 1, sizeof(Code))))
        return false;
    group->numbers = (int)numbers;
    group->codes = (int)count;
    for (int i = 0; i < group->numbers; i++)
        group->kinds[i] = (int)PyLong_AsLong(PyTuple_GetItem(kinds, i));
    for (int i = 0; i < group->codes; i++)
        if (!read_code(scanner, &group->code[i], PyTuple_GetItem(codes, i)))
            return false;
    return true;
}

/* Reads `(raw name, group, old, counts, keeps_args, fields)`. */
static bool read_category(const Scanner *scanner, Category *category, PyObject *given) {
    PyObject *fields;
    const char *name;
    Py_ssize_t size;
    int old, counts, keeps_args;
    if (!PyArg_ParseTuple(given, "y#ipppO!", &name, &size, &category->group, &old, &counts, &keeps_args, &PyTuple_Type,
                          &fields))
        return false;
    if (category->group < 0 || category->group >= scanner->groups || !(category->name = malloc((size_t)size + 1)))
        return false;
    memcpy(category->name, name, (size_t)size);
    category->size = (size_t)size;
    category->old = old;
    category->counts = counts;
    category->keeps_args = keeps_args;
    if (!read_fields(category, fields))
        return false;
    for (uint32_t i = 0; i < category->known; i++)
        if (category->keys[i].kind != TEXT && category->keys[i].number >= scanner->group[category->group].numbers)
            return false;
    return true;
}

static bool read_layout(Scanner *scanner, PyObject *groups, PyObject *categories) {
    scanner->group = calloc((size_t)PyTuple_Size(groups) + 1, sizeof(Group));
    scanner->category = calloc((size_t)PyTuple_Size(categories) + 1, sizeof(Category));
    scanner->codes = calloc((size_t)scanner->tables + 1, sizeof(Codes));
    if (!scanner->group || !scanner->category || !scanner->codes)
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_Size(groups); i++, scanner->groups++)
        if (!read_group(scanner, &scanner->group[i], PyTuple_GetItem(groups, i))) {
            scanner->groups++;
            return false;
        }
    for (Py_ssize_t i = 0; i < PyTuple_Size(categories); i++)
        if (!read_category(scanner, &scanner->category[scanner->categories++], PyTuple_GetItem(categories, i)))
            return false;
    return scanner->other >= 0 && scanner->memory >= 0 && scanner->other < scanner->categories &&
           scanner->memory < scanner->categories;
}

/* Scanner(groups, categories, tables, other, memory, most_keys, seed) */
static PyObject *Scanner_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *groups, *categories;
    int tables, other, memory;
    unsigned most_keys;
    unsigned long long seed;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!O!iiiIK", &PyTuple_Type, &groups, &PyTuple_Type, &categories, &tables, &other,
                          &memory, &most_keys, &seed))
        return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Scanner *scanner = (Scanner *)alloc(type, 0);
    if (!scanner)
        return NULL;
    scanner->tables = tables > 0 ? tables : 1;
    scanner->other = other;
    scanner->memory = memory;
    scanner->most_keys = most_keys ? most_keys : 1;
    scanner->seed = seed;
    if (!read_layout(scanner, groups, categories)) {
        Py_DECREF(scanner);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "no layout of columns");
        return NULL;
    }
    return (PyObject *)scanner;
}

static void free_column(Column *column) {
    free(column->data.data);
    free(column->nulls.data);
}

static void free_group(Group *group) {
    free_column(&group->ts);
    free_column(&group->dur);
    free_column(&group->thread);
    for (int i = 0; i < group->numbers; i++)
        free_column(&group->number[i]);
    for (int i = 0; group->code && i < group->codes; i++)
        free_column(&group->code[i].column);
    free(group->code);
    free(group->args.data);
}

static void Scanner_dealloc(PyObject *self) {
    Scanner *scanner = (Scanner *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (int i = 0; i < scanner->groups; i++)
        free_group(&scanner->group[i]);
    forget_unread(scanner, NULL);
    for (int i = 0; i < scanner->categories; i++) {
        for (uint32_t j = 0; j < scanner->category[i].known; j++)
            free(scanner->category[i].keys[j].name);
        free(scanner->category[i].keys);
        free(scanner->category[i].name);
    }
    for (int i = 0; scanner->codes && i < scanner->tables; i++) {
        free(scanner->codes[i].slots);
        free(scanner->codes[i].known.data);
        free(scanner->codes[i].keys.data);
        free(scanner->codes[i].fresh.data);
    }
    free(scanner->group);
    free(scanner->category);
    free(scanner->codes);
    free(scanner->scratch.data);
    free(scanner->meta.data);
    free(scanner->skipped.data);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef METHODS[] = {
    {"scan", Scanner_scan, METH_VARARGS, "scan(text, start, end, lenient=False, soon=False): take the events, up to an unusual one"},
    {"take", Scanner_take, METH_NOARGS, "take(): what was read since this was called last"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot SLOTS[] = {
    {Py_tp_new, Scanner_new},
    {Py_tp_dealloc, Scanner_dealloc},
    {Py_tp_methods, METHODS},
    {0, NULL},
};
static PyType_Spec SPEC = {"kerneldb.ingest.pytorch._scan.Scanner", sizeof(Scanner), 0, Py_TPFLAGS_DEFAULT, SLOTS};

static int add_scanner(PyObject *module) {
    PyObject *type = PyType_FromSpec(&SPEC);
    int failed = type ? PyModule_AddObjectRef(module, "Scanner", type) : -1;
    Py_XDECREF(type);
    return failed;
}

static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, add_scanner}, {0, NULL}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_scan", NULL, 0, NULL, MODULE_SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void) { return PyModuleDef_Init(&MODULE); }
