/* What is read of which event, as native.py asks for it, and what was read so far: columns, and codes of texts. */

#ifndef KERNELDB_SCAN_LAYOUT_H
#define KERNELDB_SCAN_LAYOUT_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include "_scan_text.h"

enum { FIELDS = 64, UNREAD = 512 };
enum { TEXT, INT, UNSIGNED, FLOAT };                /* kinds of arguments */
enum { HAS_CATEGORY = 1, HAS_NAME = 2 };            /* what of the event a code stands for */

/* ---- Python ---- */

static bool append(PyObject *list, PyObject *item) {
    bool done = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
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

#endif
