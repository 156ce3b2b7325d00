/* JSON as bytes: buffers that grow, strings, numbers and values. No access goes beyond `end`. */

#ifndef KERNELDB_SCAN_TEXT_H
#define KERNELDB_SCAN_TEXT_H

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

enum { DEPTH = 64, DIGITS = 19, MANTISSA = 53 };
static const uint64_t FLOAT_LIMIT_US = 1ull << 43, SATURATED_US = 9000000000000000; /* values.py says why */

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

#endif
