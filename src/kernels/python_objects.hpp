// A column of Python objects: which of them are the same object or the same text, found in one pass.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "arrays.hpp"

namespace fbed {

using OutCodes = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>;

// The buffer of a NumPy array of objects, held for as long as it is read.
struct ObjectBuffer {
    Py_buffer view{};

    explicit ObjectBuffer(nb::handle array) {
        if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) throw nb::python_error();
        const bool objects = view.ndim == 1 && view.format != nullptr && view.format[0] == 'O' && view.format[1] == 0;
        if (!objects || view.shape[0] > std::numeric_limits<int32_t>::max()) {
            PyBuffer_Release(&view);
            throw std::invalid_argument("expected a column of objects");
        }
    }
    ~ObjectBuffer() { PyBuffer_Release(&view); }
    ObjectBuffer(const ObjectBuffer&) = delete;
    ObjectBuffer& operator=(const ObjectBuffer&) = delete;

    int64_t size() const { return view.shape[0]; }
    PyObject* const* place(int64_t i) const {
        return reinterpret_cast<PyObject* const*>(static_cast<const char*>(view.buf) + i * view.strides[0]);
    }
    PyObject* operator[](int64_t i) const {
        PyObject* found = *place(i);
        return found != nullptr ? found : Py_None;  // NumPy leaves room for None empty
    }
};

// The characters of a text as they are stored.
struct Characters {
    const char* data;
    size_t bytes;
    unsigned width;  // of a character; equal texts have equal widths

    explicit Characters(PyObject* text)
        : data(static_cast<const char*>(PyUnicode_DATA(text))),
          bytes(static_cast<size_t>(PyUnicode_GET_LENGTH(text)) * PyUnicode_KIND(text)),
          width(PyUnicode_KIND(text)) {}

    bool operator==(const Characters& other) const {
        return bytes == other.bytes && width == other.width && std::memcmp(data, other.data, bytes) == 0;
    }

    // A few bits that differ for most texts that differ.
    size_t mark() const {
        if (bytes == 0) return 0;
        const auto at = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(data[i])); };
        return bytes * 7 + at(0) * 31 + at(bytes / 2) * 5 + at(bytes - 1);
    }
};

// Numbers the objects in the order in which they come first. Text that is equal is one, other things are one only when
// they are the same object: what counts as equal among them is not decided here.
class Numbering {
    struct Known {
        PyObject* object = nullptr;
        int32_t code = 0;
    };
    // Most columns hold few values, again and again: Python's dictionaries are asked about the others only.
    static constexpr size_t kRecent = 256;
    Known recent_objects[kRecent], recent_texts[kRecent];
    nb::dict texts, others;

    int32_t looked_up(nb::dict& known, PyObject* key, PyObject* object) {
        PyObject* found = PyDict_GetItemWithError(known.ptr(), key);
        if (found != nullptr) return static_cast<int32_t>(PyLong_AsLong(found));
        if (PyErr_Occurred()) throw nb::python_error();
        const int32_t code = static_cast<int32_t>(different.size());
        if (PyDict_SetItem(known.ptr(), key, nb::int_(code).ptr()) != 0) throw nb::python_error();
        different.append(nb::borrow(object));
        return code;
    }

    int32_t text_code(PyObject* text) {
        const Characters characters(text);
        Known& last = recent_texts[characters.mark() % kRecent];
        if (last.object == nullptr || !(Characters(last.object) == characters)) last = {text, looked_up(texts, text, text)};
        return last.code;
    }

    int32_t other_code(PyObject* object) {
        const nb::object address = nb::steal(PyLong_FromVoidPtr(object));
        return looked_up(others, address.ptr(), object);
    }

   public:
    nb::list different;

    int32_t code(PyObject* object) {
        Known& last = recent_objects[(reinterpret_cast<uintptr_t>(object) >> 4) % kRecent];
        if (last.object != object) last = {object, PyUnicode_CheckExact(object) ? text_code(object) : other_code(object)};
        return last.code;
    }
};

// A column that is being numbered.
struct NumberedColumn {
    ObjectBuffer objects;
    Numbering numbering;
    int32_t* codes;
    nb::capsule owner;

    explicit NumberedColumn(nb::handle array)
        : objects(array),
          codes(new int32_t[objects.size()]),
          owner(codes, [](void* p) noexcept { delete[] static_cast<int32_t*>(p); }) {}

    void number(int64_t first, int64_t last) {
        constexpr int64_t ahead = 8;  // the objects lie anywhere
        for (int64_t i = first; i < last; ++i) {
#if defined(__GNUC__)
            if (i + ahead < last) __builtin_prefetch(objects[i + ahead]);
#endif
            codes[i] = numbering.code(objects[i]);
        }
    }
};

// Of every column, the code of every row and what the codes stand for. A few rows of all columns are read before the
// next few: neighbours in a row-major table lie on the same page.
inline nb::list number_objects(nb::list arrays) {
    std::vector<std::unique_ptr<NumberedColumn>> columns;
    for (nb::handle array : arrays) columns.push_back(std::make_unique<NumberedColumn>(array));
    int64_t most = 0;
    for (const auto& column : columns) most = std::max(most, column->objects.size());
    constexpr int64_t few = 32;
    for (int64_t first = 0; first < most; first += few)
        for (auto& column : columns) column->number(first, std::min(first + few, column->objects.size()));
    nb::list out;
    for (auto& column : columns) {
        const auto n = static_cast<size_t>(column->objects.size());
        out.append(nb::make_tuple(OutCodes(column->codes, {n}, column->owner), column->numbering.different));
    }
    return out;
}

}  // namespace fbed
