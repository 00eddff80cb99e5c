// Tables as JSON and as text.
#include <cmath>

#include "tests/support/catch.h"
#include "tools/heed/study/table.h"

namespace {

using heed::StudyTable;

const StudyTable kTable{"T",
                        "how to read it",
                        {{"head"}, {"effect", "nats"}},
                        {{"L0H0", 0.12345678}, {"ä", std::nan("")}, {"L1H0", -2.0}}};

TEST_CASE("a table's JSON has all rows, null where a number is not finite") {
  CHECK(
      heed::tables_json({kTable}).dump() ==
      R"([{"title":"T","what":"how to read it","columns":[{"name":"head","unit":""},)"
      R"({"name":"effect","unit":"nats"}],"rows":[["L0H0",0.12345678],["ä",null],["L1H0",-2.0]]}])");
}

TEST_CASE("a table's text is aligned, and says how many rows are left out") {
  CHECK(heed::table_text(kTable, 2) ==
        "T: how to read it\n"
        "head  effect (nats)\n"
        "L0H0         0.1235\n"
        "   ä              -\n"
        "... 3 rows, all of them in --json\n");
  CHECK(heed::table_text(kTable).find("L1H0             -2\n") != std::string::npos);
}

}  // namespace
