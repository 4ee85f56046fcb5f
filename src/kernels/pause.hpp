// Long loops look up now and then: whoever called may want them to stop.
#pragma once

#include <chrono>

namespace fbed {

// Throws when the work is to stop; set by whoever calls the kernels, and not at all where nobody does.
using Ask = void (*)();

inline Ask& whom_to_ask() {
    static Ask ask = nullptr;
    return ask;
}

// Called once a column or an iteration: a look at the clock, and ten times a second the question.
inline void look_up() {
    using Clock = std::chrono::steady_clock;
    thread_local Clock::time_point next{};
    const Clock::time_point now = Clock::now();
    if (now < next) return;
    next = now + std::chrono::milliseconds(100);
    if (whom_to_ask() != nullptr) whom_to_ask()();
}

}  // namespace fbed
