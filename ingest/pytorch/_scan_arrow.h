/* Columns from and to libraries, as streams of Arrow (its C data interface). */

#ifndef KERNELDB_SCAN_ARROW_H
#define KERNELDB_SCAN_ARROW_H

#include <errno.h>

#include "_scan_layout.h"

/* https://arrow.apache.org/docs/format/CDataInterface.html */
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

/* Numbers on their way out, with a bit for each that is no NULL where some are. They are freed without Python. */
typedef struct {
    char format[2];
    int64_t rows, nulls;
    const void *buffers[2];
    void *data;
    Byte *known;
} Numbers;

static void free_numbers(Numbers *numbers) {
    if (numbers) {
        free(numbers->data);
        free(numbers->known);
        free(numbers);
    }
}

static Numbers *new_numbers(const char *format, size_t width, size_t rows) {
    Numbers *numbers = calloc(1, sizeof *numbers);
    void *data = numbers ? malloc(rows * width + 1) : NULL;
    if (!data) {
        free(numbers);
        return NULL;
    }
    numbers->format[0] = *format;
    numbers->rows = (int64_t)rows;
    numbers->data = data;
    return numbers;
}

/* Negative numbers of 32 bits are NULL. */
static bool without_negative(Numbers *numbers) {
    const int32_t *value = numbers->data;
    numbers->known = calloc((size_t)numbers->rows / 8 + 1, 1);
    if (!numbers->known)
        return false;
    for (int64_t row = 0; row < numbers->rows; row++) {
        numbers->known[row / 8] |= (Byte)((value[row] >= 0) << row % 8);
        numbers->nulls += value[row] < 0;
    }
    return true;
}

static void release_schema(struct ArrowSchema *schema) {
    free(schema->private_data);
    schema->release = NULL;
}

static void release_array(struct ArrowArray *array) {
    free_numbers(array->private_data);
    array->release = NULL;
}

static int schema_of(struct ArrowArrayStream *stream, struct ArrowSchema *schema) {
    char *format = stream->private_data ? malloc(2) : NULL;
    *schema = (struct ArrowSchema){0};
    if (!format)
        return ENOMEM;
    memcpy(format, ((Numbers *)stream->private_data)->format, 2);
    *schema = (struct ArrowSchema){format, "", NULL, 2, 0, NULL, NULL, release_schema, format}; /* 2: NULL may be in it */
    return 0;
}

static int array_of(struct ArrowArrayStream *stream, struct ArrowArray *array) {
    Numbers *numbers = stream->private_data;
    *array = (struct ArrowArray){0};
    stream->private_data = NULL;
    if (numbers) {
        numbers->buffers[0] = numbers->nulls ? numbers->known : NULL;
        numbers->buffers[1] = numbers->data;
        *array = (struct ArrowArray){numbers->rows, numbers->nulls, 0, 2, 0, numbers->buffers, NULL, NULL, release_array, numbers};
    }
    return 0;
}

static const char *no_error(struct ArrowArrayStream *stream) {
    (void)stream;
    return NULL;
}

static void release_stream(struct ArrowArrayStream *stream) {
    free_numbers(stream->private_data);
    stream->release = NULL;
}

static void forget_stream(PyObject *capsule) {
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (stream && stream->release)
        stream->release(stream);
    free(stream);
}

/* A capsule with the numbers, which it takes over; NULL with an error where there is no memory, or were no numbers. */
static PyObject *stream_of(Numbers *numbers) {
    struct ArrowArrayStream *stream = numbers ? malloc(sizeof *stream) : NULL;
    if (!stream) {
        free_numbers(numbers);
        return PyErr_NoMemory();
    }
    *stream = (struct ArrowArrayStream){schema_of, array_of, no_error, release_stream, numbers};
    PyObject *capsule = PyCapsule_New(stream, "arrow_array_stream", forget_stream);
    if (!capsule) {
        free_numbers(numbers);
        free(stream);
    }
    return capsule;
}

/* numbers(format, data): a stream of the numbers that are in bytes; the format is one of Arrow: l, L, g, I. */
static PyObject *numbers(PyObject *module, PyObject *args) {
    const char *format;
    Py_buffer data;
    (void)module;
    if (!PyArg_ParseTuple(args, "sy*", &format, &data))
        return NULL;
    size_t width = strcmp(format, "I") == 0 ? 4 : 8;
    bool known = strlen(format) == 1 && strchr("lLgI", *format);
    Numbers *found = known ? new_numbers(format, width, (size_t)data.len / width) : NULL;
    if (found) {
        Py_BEGIN_ALLOW_THREADS
        memcpy(found->data, data.buf, (size_t)found->rows * width);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    if (!known) {
        PyErr_SetString(PyExc_ValueError, "no such format");
        return NULL;
    }
    return stream_of(found);
}

#endif
