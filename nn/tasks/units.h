// A text cut into the units that are its tokens: characters or words.
#pragma once

#include <string>

#include "autograd/base/utf8.h"
#include "nn/tasks/vocabulary.h"

namespace heed::nn {

/// Takes a text code point by code point and calls emit(unit) as each unit ends; end() after the
/// last one. White space is what C's isspace takes: no other code point parts words.
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
  std::string pending_;  // of a unit that has not ended
};

}  // namespace heed::nn
