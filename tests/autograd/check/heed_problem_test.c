/* Tests of heed_check() (autograd/check/heed_check.h), compiled as C11: layouts, and state between
 * calls. Prints each check that fails, and exits with 1 if there is one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/check/heed_check.h"

static int failures = 0;

#define CHECK(ok) check((ok), #ok, __LINE__)
static void check(int ok, const char* what, int line) {
  if (ok) return;
  printf("heed_problem_test.c:%d: failed: %s\n", line, what);
  ++failures;
}

/* y [2, 3] = a * b; z [3, 2] = the transpose of sin(a). The inputs a and b are [2, 3]. */
enum { kRows = 2, kColumns = 3, kSize = 6 };

static const int64_t kMatrix[] = {kRows, kColumns}, kTransposed[] = {kColumns, kRows};
static const heed_shape kInputs[] = {{2, kMatrix}, {2, kMatrix}};
static const heed_shape kOutputs[] = {{2, kMatrix}, {2, kTransposed}};
static const double kA[] = {0.5, -1.25, 0.25, 2, 0.75, -0.5}, kB[] = {1.5, 0.5, -2, 1, -0.75, 3};
static const void* const kX[] = {kA, kB};

/* Returns element [r, c] of a matrix with `columns` columns. */
static double* at(const heed_array* m, int64_t columns, int64_t r, int64_t c) {
  return (double*)m->data + (m->strides ? r * m->strides[0] + c * m->strides[1] : r * columns + c);
}

static int forward(void* user, const heed_array* inputs, const heed_array* outputs) {
  (void)user;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      const double a = *at(&inputs[0], kColumns, r, c);
      *at(&outputs[0], kColumns, r, c) = a * *at(&inputs[1], kColumns, r, c);
      *at(&outputs[1], kRows, c, r) = sin(a);
    }
  return 0;
}

static int backward(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                    const heed_array* grad_inputs) {
  (void)user;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      const double a = *at(&inputs[0], kColumns, r, c);
      const double dy = grad_outputs[0].data ? *at(&grad_outputs[0], kColumns, r, c) : 0;
      const double dz = grad_outputs[1].data ? *at(&grad_outputs[1], kRows, c, r) : 0;
      *at(&grad_inputs[0], kColumns, r, c) = dy * *at(&inputs[1], kColumns, r, c) + dz * cos(a);
      *at(&grad_inputs[1], kColumns, r, c) = dy * a;
    }
  return 0;
}

static heed_problem problem(void) {
  return (heed_problem){.size = sizeof(heed_problem),
                        .layouts = HEED_ALL_LAYOUTS,
                        .num_inputs = 2,
                        .input_shapes = kInputs,
                        .num_outputs = 2,
                        .output_shapes = kOutputs,
                        .forward = forward,
                        .backward = backward};
}

static int has(const heed_report* report, const char* text) {
  return strstr(heed_report_text(report), text) != NULL;
}

static void test_right(void) {
  const heed_problem p = problem();
  heed_report* report = NULL;
  CHECK(heed_check(&p, kX, NULL, &report) == HEED_OK);
  CHECK(heed_report_verdict(report) == HEED_RIGHT);
  CHECK(has(report, "in 12 of 12 entries"));
  heed_report_free(report);
}

/* Checks that the problem is refused with this text. */
static void refused(const heed_problem* p, const char* text, int line) {
  heed_report* report = NULL;
  check(heed_check(p, kX, NULL, &report) == HEED_INVALID, "HEED_INVALID", line);
  check(heed_report_verdict(report) == HEED_NOT_CHECKED, "HEED_NOT_CHECKED", line);
  check(has(report, text), text, line);
  if (!has(report, text)) puts(heed_report_text(report));
  heed_report_free(report);
}
#define REFUSED(p, text) refused((p), (text), __LINE__)

static void test_invalid_problems(void) {
  REFUSED(NULL, "heed_check: problem is NULL");
  heed_problem p = problem();
  p.size = 8;
  REFUSED(&p, "problem has size 8, needs 112 to 4096; set its member size to sizeof(heed_problem)");
  p = problem(), p.forward = NULL;
  REFUSED(&p, "forward is NULL");
  p = problem(), p.backward = NULL;
  REFUSED(&p, "backward is NULL");
  p = problem(), p.dtype = 4;
  REFUSED(&p, "dtype is 4; needs HEED_FLOAT64 or HEED_FLOAT32");
  p = problem(), p.layouts = 64;
  REFUSED(&p, "layouts is 64; needs a sum of layouts, at most HEED_ALL_LAYOUTS, which is 63");
  p = problem(), p.num_inputs = 3, p.input_shapes = NULL;
  REFUSED(&p, "input_shapes is NULL");
  p = problem(), p.plain = &p;
  REFUSED(&p, "plain is not supported by this version; set it to NULL");
  struct {
    heed_problem first;
    int64_t added;
  } later = {problem(), 1};
  later.first.size = sizeof later;
  REFUSED(&later.first, "has size 120, this library has 112; set the other members to 0");
}

int main(void) {
  test_right();
  test_invalid_problems();
  if (failures == 0) puts("heed_problem_test: all passed");
  return failures != 0;
}
