// Long loops look up now and then: whoever called may want them to stop, for a time limit or Ctrl-C. From Python, it is `fbed.clock`
// that is asked (`ask_python` in bindings.cpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace fbed {

// Throws when the work is to stop; set by whoever calls the kernels, and not at all where nobody does.
using Ask = void (*)();

inline Ask& whom_to_ask() {
    static Ask ask = nullptr;
    return ask;
}

// Milliseconds between two questions; 0 asks at every look, so that tests can end the work anywhere.
inline std::atomic<int64_t>& patience() {
    static std::atomic<int64_t> milliseconds{100};
    return milliseconds;
}

// Called once a column or an iteration: a look at the clock, and ten times a second the question.
inline void look_up() {
    using Clock = std::chrono::steady_clock;
    thread_local Clock::time_point asked{};
    const Clock::time_point now = Clock::now();
    if (now - asked < std::chrono::milliseconds(patience().load(std::memory_order_relaxed))) return;
    asked = now;
    if (whom_to_ask() != nullptr) whom_to_ask()();
}

}  // namespace fbed
