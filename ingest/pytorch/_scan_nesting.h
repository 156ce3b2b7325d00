/* Which span encloses which: nesting.py says what that means. Columns come as a stream of Arrow (its C data interface). */

#ifndef KERNELDB_SCAN_NESTING_H
#define KERNELDB_SCAN_NESTING_H

#include "_scan_arrow.h"

enum { ANNOTATION, PYTHON, MODULE, OP, CALL };      /* kinds of spans, as in nesting.py; a call encloses nothing */
enum { OF_OP, OF_ANNOTATION, OF_MODULE, OF_PYTHON, INNERMOST };

/* The columns of some spans. */
typedef struct {
    const uint32_t *thread, *index;
    const int64_t *ts, *end;
    const int8_t *kind;
    size_t rows;
} Spans;

/* What a span is sorted by; `row` is where it stands in the columns. */
typedef struct {
    int64_t ts, end;
    uint32_t thread, row;
} Place;

/* A span that may enclose others. Along `parent` ends grow, so `further`, many steps ahead, leads to an end fast. */
typedef struct {
    int64_t end;
    int32_t parent, further, level, depth, innermost[INNERMOST];
} Open;

static bool is_behind(const Spans *spans, const Place *one, const Place *other) {
    if (one->thread != other->thread)
        return one->thread > other->thread;
    if (one->ts != other->ts)
        return one->ts > other->ts;
    if (one->end != other->end)
        return one->end < other->end;
    int8_t kind = spans->kind[one->row], other_kind = spans->kind[other->row];
    return kind != other_kind ? kind > other_kind : spans->index[one->row] > spans->index[other->row];
}

static size_t run_of(const Spans *spans, const Place *places, size_t start, size_t rows) {
    size_t end = start + 1;
    while (end < rows && !is_behind(spans, &places[end - 1], &places[end]))
        end++;
    return end;
}

/* Merge neighbouring runs until there is one: profilers write spans in order, or nearly so. The result is in `places` or `other`. */
static Place *sorted(const Spans *spans, Place *places, Place *other, size_t rows) {
    for (size_t runs = 2; runs > 1;) {
        runs = 0;
        for (size_t start = 0, put = 0; start < rows; runs++) {
            size_t middle = run_of(spans, places, start, rows);
            size_t end = middle < rows ? run_of(spans, places, middle, rows) : rows, left = start, right = middle;
            while (left < middle && right < end)
                other[put++] = places[is_behind(spans, &places[left], &places[right]) ? right++ : left++];
            while (left < middle)
                other[put++] = places[left++];
            while (right < end)
                other[put++] = places[right++];
            start = end;
        }
        Place *swapped = places;
        places = other;
        other = swapped;
    }
    return places;
}

/* The innermost one from `at` on that ends no earlier than `needed`, or -1. */
static int32_t enclosing(const Open *open, int32_t at, int64_t needed) {
    while (at >= 0 && open[at].end < needed) {
        int32_t further = open[at].further;
        at = further >= 0 && open[further].end < needed ? further : open[at].parent;
    }
    return at;
}

static void begin(Open *open, int32_t at, int32_t parent, int64_t end, int8_t kind, int32_t index) {
    static const Open nothing = {0, -1, -1, 0, 0, {-1, -1, -1, -1}};
    const Open *around = parent < 0 ? &nothing : &open[parent];
    Open made = *around;
    made.end = end;
    made.parent = parent;
    made.level = around->level + 1;
    made.depth = around->depth + (kind == OP);
    made.further = parent; /* as far again as the one that the parent knows, where that is as far from the next one */
    if (parent >= 0 && around->further >= 0) {
        const Open *there = &open[around->further];
        int32_t beyond = there->further, level = beyond < 0 ? 0 : open[beyond].level;
        if (around->level - there->level == there->level - level)
            made.further = beyond;
    }
    if (kind == OP)
        made.innermost[OF_OP] = index;
    if (kind == ANNOTATION)
        made.innermost[OF_ANNOTATION] = index;
    if (kind == MODULE)
        made.innermost[OF_MODULE] = index;
    if (kind == MODULE || kind == PYTHON)
        made.innermost[OF_PYTHON] = index;
    open[at] = made;
}

/* `found` are columns of the innermost ones, and the last one counts the operators around. */
static void nest(const Spans *spans, const Place *places, Open *open, int32_t **found) {
    int32_t last = -1, given = 0;
    for (size_t i = 0; i < spans->rows; i++) {
        const Place *place = &places[i];
        if (i && place->thread != places[i - 1].thread)
            last = -1;
        while (last >= 0 && open[last].end <= place->ts)
            last = open[last].parent;
        int64_t needed = place->end > place->ts ? place->end : place->ts + (place->ts < INT64_MAX);
        int32_t around = enclosing(open, last, needed);
        for (int column = 0; column < INNERMOST; column++)
            found[column][place->row] = around < 0 ? -1 : open[around].innermost[column];
        found[INNERMOST][place->row] = around < 0 ? 0 : open[around].depth;
        int8_t kind = spans->kind[place->row];
        if (kind != CALL) {
            begin(open, given, around, place->end, kind, (int32_t)spans->index[place->row]);
            last = given++;
        }
    }
}

static bool nested_spans(const Spans *spans, int32_t **found) {
    Place *places = malloc((spans->rows + 1) * 2 * sizeof *places);
    Open *open = malloc((spans->rows + 1) * sizeof *open);
    bool made = places && open;
    if (made) {
        for (uint32_t row = 0; row < spans->rows; row++)
            places[row] = (Place){spans->ts[row], spans->end[row], spans->thread[row], row};
        nest(spans, sorted(spans, places, places + spans->rows, spans->rows), open, found);
    }
    free(places);
    free(open);
    return made;
}

/* The values of a column without NULL, or NULL where it is another one. */
static const void *values_of(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t column,
                             const char *format, size_t width, int64_t rows) {
    const struct ArrowArray *child = array->children[column];
    bool fits = strcmp(schema->children[column]->format, format) == 0 && child->length >= rows + array->offset;
    if (!fits || child->n_buffers != 2 || !child->buffers[1] || (child->null_count && child->buffers[0]))
        return NULL;
    return (const Byte *)child->buffers[1] + (size_t)(child->offset + array->offset) * width;
}

static bool take_spans(Spans *spans, const struct ArrowSchema *schema, const struct ArrowArray *array) {
    if (strcmp(schema->format, "+s") || schema->n_children != 5 || array->n_children != 5 || array->length > INT32_MAX)
        return false;
    int64_t rows = array->length;
    spans->rows = (size_t)rows;
    spans->thread = values_of(schema, array, 0, "I", sizeof *spans->thread, rows);
    spans->ts = values_of(schema, array, 1, "l", sizeof *spans->ts, rows);
    spans->end = values_of(schema, array, 2, "l", sizeof *spans->end, rows);
    spans->kind = values_of(schema, array, 3, "c", sizeof *spans->kind, rows);
    spans->index = values_of(schema, array, 4, "I", sizeof *spans->index, rows);
    bool right = spans->thread && spans->ts && spans->end && spans->kind && spans->index;
    for (size_t row = 0; right && row < spans->rows; row++)
        right = spans->kind[row] >= ANNOTATION && spans->kind[row] <= CALL && spans->index[row] <= INT32_MAX;
    return right;
}

static PyObject *found_of(const Spans *spans) {
    Numbers *columns[INNERMOST + 1] = {NULL};
    int32_t *found[INNERMOST + 1];
    PyObject *result = NULL;
    bool made = true;
    for (int column = 0; made && column <= INNERMOST; column++) {
        columns[column] = new_numbers("i", sizeof **found, spans->rows);
        made = columns[column] != NULL;
        found[column] = made ? columns[column]->data : NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    made = made && nested_spans(spans, found);
    for (int column = 0; made && column < INNERMOST; column++)
        made = without_negative(columns[column]);
    Py_END_ALLOW_THREADS
    if (made)
        result = PyList_New(0);
    for (int column = 0; column <= INNERMOST; column++) {
        if (!result)
            free_numbers(columns[column]);
        else if (!append(result, stream_of(columns[column])))
            Py_CLEAR(result);
    }
    return result || PyErr_Occurred() ? result : PyErr_NoMemory();
}

/* nested(stream): streams of op, annotation, module, python (index of the innermost one, or NULL) and depth. */
static PyObject *nested(PyObject *module, PyObject *capsule) {
    (void)module;
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    struct ArrowSchema schema = {0};
    struct ArrowArray array = {0}, more = {0};
    PyObject *result = NULL;
    Spans spans;
    if (!stream)
        return NULL;
    if (stream->get_schema(stream, &schema) == 0 && stream->get_next(stream, &array) == 0 && array.release &&
        stream->get_next(stream, &more) == 0 && !more.release && take_spans(&spans, &schema, &array))
        result = found_of(&spans);
    else
        PyErr_SetString(PyExc_ValueError, "not the columns thread, ts, end, kind and index in one piece");
    if (schema.release)
        schema.release(&schema);
    if (array.release)
        array.release(&array);
    if (more.release)
        more.release(&more);
    return result;
}

#endif
