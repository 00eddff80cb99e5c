/* Tests of the C interface of the gradient checker (autograd/check/heed_check.h), compiled as C11.
 * Prints each check that fails, and exits with 1 if there is one. */
#include "autograd/check/heed_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

static int failures = 0;

#define CHECK(ok) check((ok), #ok, __LINE__)
static void check(int ok, const char* what, int line) {
  if (ok) return;
  printf("heed_check_test.c:%d: failed: %s\n", line, what);
  ++failures;
}

/* y [2, 3] = softmax of each row of x [2, 3], times a [1]; z [] = the sum of the squares of x. */
enum { kRows = 2, kColumns = 3, kSize = 6 };

struct state {
  int wrong;       /* 1: the backward pass lacks the sum over the row */
  int forwards;    /* calls of the forward pass so far */
  int backwards;   /* calls of the backward pass so far */
  int fails_at;    /* the call that fails, counted from 1; 0: none */
  int code;        /* the code that it returns */
  int leave_empty; /* 1: the forward pass does not write z */
};

static int result(const struct state* s) {
  return s->forwards + s->backwards == s->fails_at ? s->code : 0;
}

#define DEFINE_FUNCTIONS(T, EXP, forward, backward)                                             \
  static void forward##_softmax(const T* x, T* y) {                                             \
    for (int r = 0; r < kRows; ++r) {                                                           \
      T sum = 0;                                                                                \
      for (int c = 0; c < kColumns; ++c) sum += y[r * kColumns + c] = EXP(x[r * kColumns + c]); \
      for (int c = 0; c < kColumns; ++c) y[r * kColumns + c] /= sum;                            \
    }                                                                                           \
  }                                                                                             \
  static int forward(void* user, const void* const* inputs, void* const* outputs) {             \
    struct state* s = user;                                                                     \
    const T *x = inputs[0], *a = inputs[1];                                                     \
    T *y = outputs[0], *z = outputs[1];                                                         \
    forward##_softmax(x, y);                                                                    \
    for (int k = 0; k < kSize; ++k) y[k] *= a[0];                                               \
    if (!s->leave_empty) *z = 0;                                                                \
    for (int k = 0; k < kSize; ++k) *z += x[k] * x[k];                                          \
    ++s->forwards;                                                                              \
    return result(s);                                                                           \
  }                                                                                             \
  static int backward(void* user, const void* const* inputs, const void* const* grad_outputs,   \
                      void* const* grad_inputs) {                                               \
    struct state* s = user;                                                                     \
    const T *x = inputs[0], *a = inputs[1], *dy = grad_outputs[0], *dz = grad_outputs[1];       \
    T *dx = grad_inputs[0], *da = grad_inputs[1], p[kSize];                                     \
    forward##_softmax(x, p);                                                                    \
    *da = 0;                                                                                    \
    for (int r = 0; r < kRows; ++r) {                                                           \
      T dot = 0;                                                                                \
      for (int k = r * kColumns; k < (r + 1) * kColumns; ++k) dot += p[k] * dy[k];              \
      *da += dot;                                                                               \
      for (int k = r * kColumns; k < (r + 1) * kColumns; ++k)                                   \
        dx[k] = a[0] * p[k] * (dy[k] - (s->wrong ? 0 : dot)) + 2 * x[k] * dz[0];                \
    }                                                                                           \
    ++s->backwards;                                                                             \
    return result(s);                                                                           \
  }
DEFINE_FUNCTIONS(double, exp, forward64, backward64)
DEFINE_FUNCTIONS(float, expf, forward32, backward32)

static const int64_t kMatrix[] = {kRows, kColumns};
static const int64_t kOne[] = {1};
static const heed_shape kInputs[] = {{2, kMatrix}, {1, kOne}};
static const heed_shape kOutputs[] = {{2, kMatrix}, {0, NULL}};
static const double kX[] = {0.5, -1.25, 0.25, 2, 0.75, -0.5}, kA[] = {1.5};
static const float kX32[] = {0.5F, -1.25F, 0.25F, 2, 0.75F, -0.5F}, kA32[] = {1.5F};
static const void* const kInputs64[] = {kX, kA};

static heed_function softmax(struct state* s) {
  return (heed_function){HEED_FLOAT64, 2, kInputs, 2, kOutputs, forward64, backward64, s};
}

static int has(const heed_report* report, const char* text) {
  return strstr(heed_report_text(report), text) != NULL &&
         strstr(heed_report_json(report), text) != NULL;
}

static void test_verdicts(void) {
  struct state s = {0};
  heed_function f = softmax(&s);
  heed_report* report = NULL;
  CHECK(heed_check_vjp(&f, kInputs64, NULL, &report) == HEED_OK);
  CHECK(heed_report_verdict(report) == HEED_RIGHT);
  CHECK(strncmp(heed_report_text(report), "right: ", 7) == 0);
  CHECK(strstr(heed_report_text(report), "in 7 of 7 entries") != NULL);
  CHECK(strstr(heed_report_json(report), "{\"verdict\":\"right\"") != NULL);
  char calls[80];
  snprintf(calls, sizeof calls, "\"forward_calls\":%d,\"backward_calls\":%d}", s.forwards,
           s.backwards);
  CHECK(strstr(heed_report_json(report), calls) != NULL);
  heed_report_free(report);

  s.wrong = 1;
  CHECK(heed_check_vjp(&f, kInputs64, NULL, &report) == HEED_OK);
  CHECK(heed_report_verdict(report) == HEED_WRONG);
  CHECK(has(report, "input 0 at ["));
  CHECK(has(report, "for output 0 at ["));
  CHECK(strstr(heed_report_json(report), "\"worst\":{\"input\":0,\"at\":[") != NULL);
  heed_report_free(report);

  const void* const inputs32[] = {kX32, kA32};
  f.dtype = HEED_FLOAT32, f.forward = forward32, f.backward = backward32;
  CHECK(heed_check_vjp(&f, inputs32, NULL, &report) == HEED_OK);
  CHECK(heed_report_verdict(report) == HEED_WRONG);
  heed_report_free(report);
  s.wrong = 0;
  CHECK(heed_check_vjp(&f, inputs32, NULL, &report) == HEED_OK);
  CHECK(heed_report_verdict(report) == HEED_RIGHT);
  heed_report_free(report);
}

static void test_not_finite(void) {
  struct state s = {.leave_empty = 1};
  heed_function f = softmax(&s);
  heed_report* report = NULL;
  CHECK(heed_check_vjp(&f, kInputs64, NULL, &report) ==
        HEED_OK); /* the library has filled z with NaN */
  CHECK(heed_report_verdict(report) == HEED_WRONG);
  CHECK(has(report, "not finite: output 1 at []"));
  heed_report_free(report);
}

static int constant(void* user, const void* const* inputs, void* const* outputs) {
  (void)user, (void)inputs;
  *(double*)outputs[0] = 1e20 + *(const double*)inputs[0];
  return 0;
}
static int constant_gradient(void* user, const void* const* inputs, const void* const* grad_outputs,
                             void* const* grad_inputs) {
  (void)user, (void)inputs;
  *(double*)grad_inputs[0] = *(const double*)grad_outputs[0];
  return 0;
}

static void test_options_and_vacuous(void) {
  const heed_shape shape[] = {{0, NULL}};
  const double x = 1;
  const void* const inputs[] = {&x};
  const heed_function f = {HEED_FLOAT64, 1, shape, 1, shape, constant, constant_gradient, NULL};
  heed_check_options options = HEED_CHECK_OPTIONS;
  options.seed = 7;
  heed_report* report = NULL;
  CHECK(heed_check_vjp(&f, inputs, &options, &report) == HEED_OK);
  CHECK(heed_report_verdict(report) == HEED_VACUOUS);
  CHECK(strstr(heed_report_json(report), "\"seed\":7") != NULL);
  heed_report_free(report);
  CHECK(heed_check_vjp(&f, inputs, &options, NULL) == HEED_OK); /* nobody wants the report */
}

/* Checks that the arguments are refused with this text. */
static void refused(const heed_function* f, const void* const* x, const heed_check_options* options,
                    const char* text, int line) {
  heed_report* report = NULL;
  const int status = heed_check_vjp(f, x, options, &report);
  check(status == HEED_INVALID, "status == HEED_INVALID", line);
  check(heed_report_verdict(report) == HEED_NOT_CHECKED, "HEED_NOT_CHECKED", line);
  check(has(report, text), text, line);
  heed_report_free(report);
}
#define REFUSED(f, x, options, text) refused((f), (x), (options), (text), __LINE__)

static void test_invalid_arguments(void) {
  struct state s = {0};
  const heed_function good = softmax(&s);
  heed_function f = good;
  REFUSED(NULL, kInputs64, NULL, "function is NULL");
  f.forward = NULL;
  REFUSED(&f, kInputs64, NULL, "forward is NULL");
  f = good, f.backward = NULL;
  REFUSED(&f, kInputs64, NULL, "backward is NULL");
  f = good, f.dtype = 2;
  REFUSED(&f, kInputs64, NULL, "dtype is 2; needs HEED_FLOAT64 or HEED_FLOAT32");
  f = good, f.input_shapes = NULL;
  REFUSED(&f, kInputs64, NULL, "input_shapes is NULL");
  REFUSED(&good, NULL, NULL, "x[0] is NULL");
  const void* const one[] = {kX, NULL};
  REFUSED(&good, one, NULL, "x[1] is NULL");
  const int64_t negative[] = {2, -3}, many[] = {1, 1, 1, 1, 1, 1, 1, 1, 1},
                huge[] = {1LL << 40, 1LL << 40};
  heed_shape shapes[] = {{2, negative}, {1, kOne}};
  f = good, f.input_shapes = shapes;
  REFUSED(&f, kInputs64, NULL, "input 0 has the shape [2, -3]; needs sizes of at least 0");
  shapes[0] = (heed_shape){9, many};
  REFUSED(&f, kInputs64, NULL, "input 0 has 9 axes, at most 8");
  shapes[0] = (heed_shape){2, huge};
  REFUSED(&f, kInputs64, NULL, "at most 2^40 elements");
  shapes[0] = (heed_shape){2, NULL};
  REFUSED(&f, kInputs64, NULL, "input 0: sizes is NULL");
  heed_check_options options = HEED_CHECK_OPTIONS;
  options.max_entries = 0;
  REFUSED(&good, kInputs64, &options, "max_entries must be at least 1, got 0");
  CHECK(heed_report_verdict(NULL) == HEED_NOT_CHECKED);
  CHECK(strcmp(heed_report_text(NULL), "") == 0 && strcmp(heed_report_json(NULL), "") == 0);
  heed_report_free(NULL);
}

/* The options of a later version, with a member more. */
static void test_other_versions(void) {
  struct state s = {0};
  const heed_function f = softmax(&s);
  struct {
    heed_check_options first;
    int64_t added;
  } later = {{sizeof later, 7, 1000}, 0};
  heed_report* report = NULL;
  CHECK(heed_check_vjp(&f, kInputs64, &later.first, &report) == HEED_OK);
  CHECK(heed_report_verdict(report) == HEED_RIGHT);
  CHECK(strstr(heed_report_json(report), "\"seed\":7") != NULL);
  heed_report_free(report);
  later.added = 1LL << 56; /* the last byte counts, too */
  REFUSED(&f, kInputs64, &later.first, "has size 32, this library has 24; set the other members");
  const size_t sizes[] = {0, 8, 23, 4097, (size_t)-1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    later.first.size = sizes[i];
    REFUSED(&f, kInputs64, &later.first, "needs 24 to 4096; initialize it with HEED_CHECK_OPTIONS");
  }
}

static void test_failing_callbacks(void) {
  for (int wrong = 0; wrong < 2; ++wrong) {
    struct state s = {.wrong = wrong};
    const heed_function f = softmax(&s);
    CHECK(heed_check_vjp(&f, kInputs64, NULL, NULL) == HEED_OK);
    const int calls = s.forwards + s.backwards;
    CHECK(calls > 50);
    for (int at = 1; at <= calls; ++at) {
      s = (struct state){.wrong = wrong, .fails_at = at, .code = 42};
      heed_report* report = NULL;
      CHECK(heed_check_vjp(&f, kInputs64, NULL, &report) == 42);
      CHECK(s.forwards + s.backwards == at);
      CHECK(heed_report_verdict(report) == HEED_NOT_CHECKED);
      CHECK(has(report, "ward returned 42, which ended the check"));
      heed_report_free(report);
    }
    s = (struct state){.fails_at = 3, .code = -1};
    heed_report* report = NULL;
    CHECK(heed_check_vjp(&f, kInputs64, NULL, &report) == HEED_FAILED);
    CHECK(has(report, "returned -1; it must return 0, or a positive number to end the check"));
    heed_report_free(report);
  }
}

static int check_often(void* wrong) {
  int right = 1;
  for (int i = 0; i < 20; ++i) {
    struct state s = {.wrong = wrong != NULL};
    const heed_function f = softmax(&s);
    heed_report* report = NULL;
    right = right && heed_check_vjp(&f, kInputs64, NULL, &report) == HEED_OK;
    right = right && heed_report_verdict(report) == (wrong ? HEED_WRONG : HEED_RIGHT);
    heed_report_free(report);
  }
  return right;
}

static void test_threads(void) {
  thrd_t threads[8];
  for (int i = 0; i < 8; ++i)
    CHECK(thrd_create(&threads[i], check_often, i % 2 ? &failures : NULL) == thrd_success);
  for (int i = 0; i < 8; ++i) {
    int right = 0;
    thrd_join(threads[i], &right);
    CHECK(right);
  }
}

int main(void) {
  test_verdicts();
  test_not_finite();
  test_options_and_vacuous();
  test_invalid_arguments();
  test_other_versions();
  test_failing_callbacks();
  test_threads();
  if (failures == 0) puts("heed_check_test: all passed");
  return failures != 0;
}
