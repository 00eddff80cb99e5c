// Splits a text into its tokens, which are characters or words.
#pragma once

#include <string>

#include "autograd/base/utf8.h"
#include "nn/tasks/vocabulary.h"

namespace heed::nn {

/// Splits a text into units (see Unit). put() takes the next code point and calls emit(unit) for
/// each unit that is complete. end() must be called after the last code point. Words are separated
/// only by the white space of C's isspace(): the space and the characters 9 to 13.
class UnitSplitter {
 public:
  explicit UnitSplitter(Unit unit) : unit_(unit) {}

  template <class F>
  void put(char32_t c, const F& emit) {
    const bool space = c == U' ' || (c >= U'\t' && c <= U'\r');
    if (unit_ == Unit::kChar || space) end(emit);
    pending_ += autograd::to_utf8(c);
    if (unit_ == Unit::kChar || (space && c != U' ')) end(emit);
  }
  template <class F>
  void end(const F& emit) {
    if (!pending_.empty()) emit(pending_);
    pending_.clear();
  }

 private:
  Unit unit_;
  std::string pending_;  // code points of the unit that is not complete yet, as UTF-8
};

}  // namespace heed::nn
