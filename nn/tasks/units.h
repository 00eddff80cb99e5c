// Splits a text into its tokens, which are characters or words.
#pragma once

#include <string>

#include "autograd/base/utf8.h"
#include "nn/tasks/vocabulary.h"

namespace heed::nn {

/// Splits a text that arrives code point by code point. put() calls emit(unit) whenever a unit is
/// complete, and end() must be called after the last code point. Only the white space of C's
/// isspace separates words.
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
  std::string pending_;  // the code points of the unit that is not complete yet
};

}  // namespace heed::nn
