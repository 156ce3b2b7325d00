/* Reads the events of a PyTorch trace into columns, in one pass over the text, with the interpreter's lock released.

   The layout of the columns comes from Python (native.py). What is unusual, or no JSON, is not decided here: the scan
   stops at such an event, native.py reads it the tolerant way and hands it back in the usual form. The text is
   untrusted: every access is bounded by `end`, nesting by DEPTH, tables by what Python asks for. `nested` is about spans
   that were read. */

#include "_scan_columns.h"
#include "_scan_nesting.h"

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

static PyMethodDef FUNCTIONS[] = {
    {"numbers", numbers, METH_VARARGS, "numbers(format, data): a stream of the numbers in bytes"},
    {"nested", nested, METH_O, "nested(stream): what encloses each span"},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, add_scanner}, {0, NULL}};
static struct PyModuleDef DEFINITION = {PyModuleDef_HEAD_INIT, "_scan", NULL, 0, FUNCTIONS, MODULE_SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void) { return PyModuleDef_Init(&DEFINITION); }
