/* Gradient check for C, and for languages that can call C: check_vjp (check_vjp.h) as a C11
 * interface of the shared library libheed_check. The forward pass and the backward pass are two
 * functions on plain arrays.
 *
 *   heed_report* report = NULL;
 *   int status = heed_check(&problem, inputs, NULL, &report);
 *   if (status || heed_report_verdict(report) != HEED_RIGHT) puts(heed_report_text(report));
 *   heed_report_free(report);
 *
 * All functions may be called from several threads at the same time. No C++ exception leaves them.
 */
#ifndef HEED_CHECK_H
#define HEED_CHECK_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HEED_API __attribute__((visibility("default")))
#else
/** Marks the functions of the shared library for compilers that need it. */
#define HEED_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Type of all elements of a function. */
typedef enum heed_dtype {
  HEED_FLOAT64 = 0,
  HEED_FLOAT32 = 1,
  HEED_FLOAT16 = 2, /**< IEEE 754 binary16 */
  HEED_BFLOAT16 = 3 /**< the upper 16 bits of a float */
} heed_dtype;

/** Shape of an array, in row-major order: at most 8 axes. An array with 0 axes has one element. */
typedef struct heed_shape {
  size_t axes;          /**< number of axes */
  const int64_t* sizes; /**< size of each axis, at least 0 (or NULL if axes is 0) */
} heed_shape;

/** Options of a check. Initialize them with HEED_CHECK_OPTIONS, then change members. */
typedef struct heed_check_options {
  size_t size;          /**< sizeof(heed_check_options) of the version of the library */
  uint64_t seed;        /**< CheckOptions::seed (check_vjp.h) */
  int64_t max_entries;  /**< CheckOptions::max_entries, at least 1 */
  double forward_error; /**< CheckOptions::forward_error, finite and at least 0 */
} heed_check_options;
/** Initializer with the defaults: heed_check_options options = HEED_CHECK_OPTIONS; */
#define HEED_CHECK_OPTIONS \
  { sizeof(heed_check_options), 1, 1000, 0 }

/** Outcome of a check. */
typedef enum heed_verdict {
  HEED_NOT_CHECKED = 0, /**< the check ended early: heed_check() did not return HEED_OK */
  HEED_RIGHT = 1,       /**< every comparison passed */
  HEED_WRONG = 2,       /**< a comparison failed; the text names the entry */
  HEED_VACUOUS = 3      /**< a clearly wrong gradient would pass too, so nothing is proven */
} heed_verdict;

/** Result of heed_check(), apart from positive codes of the caller's functions. */
typedef enum heed_status {
  HEED_OK = 0,             /**< the check ran to its end; the report has the verdict */
  HEED_INVALID = -1,       /**< an argument is not valid; the report's text names it */
  HEED_OUT_OF_MEMORY = -2, /**< the report is NULL */
  HEED_FAILED = -3         /**< another failure, which the report's text describes */
} heed_status;

/** Code that heed_problem::backward may return if the language refuses a second call of backward
 * after one call of forward (PyTorch without retain_graph). Then forward is called before each call
 * of backward, and a second call after one forward is not checked. */
enum { HEED_SINGLE_USE = 0x5105E };
/** Code that heed_problem::backward2 returns if the function has no second derivative (PyTorch's
 * once_differentiable). The verdict is then HEED_VACUOUS. */
enum { HEED_NO_DERIVATIVE = 0x5105F };
/** Code that any callback may return if it has no result for these inputs, because they are outside
 * of its domain. Then it writes no results, which count as NaN. If forward returns it for an input
 * that is not contiguous or lies inside a larger array, this layout of the input is not checked. */
enum { HEED_UNDEFINED = 0x51060 };

/** An array that heed_check() gives to a callback. At most one array of a call has one of the
 * layouts below, and all others are contiguous. In such a call, NaNs lie between the elements of
 * this array, and before and after each array that the callback reads. In all other calls, the
 * arrays that it reads have the same addresses. A callback must not change an array that it reads.
 */
typedef struct heed_array {
  void* data;             /**< the element with index [0, ..., 0]; NULL: a missing gradient of an
                               output, which counts as zeros */
  const int64_t* strides; /**< distance of neighbors along each axis, in elements, also negative or
                               0; NULL: contiguous, in row-major order */
} heed_array;

/** Layouts of the inputs and of the gradients of the outputs that the callbacks accept. */
enum {
  HEED_OFFSET = 1,        /**< contiguous, inside a larger array */
  HEED_TRANSPOSED = 2,    /**< axes in reversed order in memory */
  HEED_EVERY_SECOND = 4,  /**< every second element along the last axis that is longer than 1 */
  HEED_NEGATIVE = 8,      /**< the last axis that is longer than 1, reversed in memory */
  HEED_ZERO_STRIDES = 16, /**< one element for all indices (only gradients of outputs) */
  HEED_MISSING = 32,      /**< data is NULL (only gradients of outputs, if there are several) */
  HEED_ALL_LAYOUTS = 63
};

/** A function with its derivatives. Members that are 0 are absent; set all of them to 0 first.
 * Callbacks return 0, or a positive number to end the check, and never leave with longjmp or a C++
 * exception.
 *
 * Calls of derivatives belong to the last call of forward with the same inputs. Several of them may
 * follow one call of forward. One call of forward with other inputs may lie between, so a function
 * that keeps values of its forward pass must keep them for two calls.
 *
 * Results are contiguous (strides NULL), and all elements must be written. The arrays to which
 * backward writes the gradients are valid until the second next call of backward begins, and must
 * keep their values during the next call. In a language whose backward returns an array of its own,
 * a later call may change that array by mistake. To detect this, the next callback copies the array
 * to the gradients again before it returns. */
typedef struct heed_problem {
  size_t size;                     /**< sizeof(heed_problem) */
  int dtype;                       /**< heed_dtype of all arrays */
  unsigned layouts;                /**< sum of the HEED_... layouts that the callbacks accept */
  size_t num_inputs;               /**< number of inputs */
  const heed_shape* input_shapes;  /**< shape of each input */
  size_t num_outputs;              /**< number of outputs */
  const heed_shape* output_shapes; /**< shape of each output */
  void* user;                      /**< first argument of all callbacks */
  /** Computes the outputs. */
  int (*forward)(void* user, const heed_array* inputs, const heed_array* outputs);
  /** Computes J(x)^T dy, where J is the Jacobian. May be NULL if jvp is given. */
  int (*backward)(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                  const heed_array* grad_inputs);
  /** Computes the gradient of the dot product of backward's results with `tangents` (shaped like
   * the inputs), with respect to the inputs and to the gradients of the outputs. If it is given,
   * order 2 is checked. */
  int (*backward2)(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                   const heed_array* tangents, const heed_array* grad_inputs,
                   const heed_array* grad_grad_outputs);
  /** Computes J(x) t, where the tangents t have the shapes of the inputs. If it is given, it is
   * checked. backward2 and jvp are checked in float32 and float64 only. */
  int (*jvp)(void* user, const heed_array* inputs, const heed_array* tangents,
             const heed_array* output_tangents);
  /** For float16 and bfloat16: the same function in float64. Without it the verdict is "vacuous".
   */
  const struct heed_problem* reference;
  /** For float16 and bfloat16: the same function in the same type, computed operation by operation.
   * Errors up to 3 times its errors are right. NULL: up to 3 times one rounding. */
  const struct heed_problem* plain;
  /** Name of the language or library of the callbacks, such as "PyTorch", for the reasons in the
   * report ("negative strides: not in PyTorch"). May be NULL. */
  const char* caller;
} heed_problem;

/** Report of a check. It belongs to the caller, who frees it with heed_report_free(). */
typedef struct heed_report heed_report;

/** Checks the derivatives of `problem` at the inputs x, and that its results do not depend on the
 * layout of the arrays or on earlier calls. x[i] points to the elements of input i, contiguous in
 * row-major order, which must be finite for a verdict other than HEED_WRONG. The elements are
 * copied. `options` may be NULL: the defaults. Returns a heed_status, or the positive code of the
 * callback that ended the check. Sets *report, also after a failure, except after
 * HEED_OUT_OF_MEMORY and if `report` is NULL. check_vjp() documents what is checked, and how many
 * calls are made. */
HEED_API int heed_check(const heed_problem* problem, const void* const* x,
                        const heed_check_options* options, heed_report** report);

/** Returns the verdict, or HEED_NOT_CHECKED if `report` is NULL. */
HEED_API heed_verdict heed_report_verdict(const heed_report* report);
/** Returns the report as one line that begins with the verdict, such as "right: 11.7 digits agree
 * ...", or the error as text. Valid until heed_report_free(). "" if `report` is NULL. */
HEED_API const char* heed_report_text(const heed_report* report);
/** Returns the report as one JSON object, in UTF-8, valid until heed_report_free(). Keys: verdict
 * ("right", "wrong", "vacuous"), message, digits, checked, entries, worst (the worst compared
 * entry: input, at (its index, or null for a random direction), backward, differences, tolerance,
 * digits; or null), order (1 or 2), low_precision (null, or R, factor, factor_error and inputs),
 * diagnosis (the mistake that explains a wrong gradient: kind, factor or null, input or null if
 * several are wrong, agree, of, text (diagnosis.h); or null), layouts and repeated (each with
 * passed, of, and not_applicable: texts such as "missing gradient: one output"; passed and of are 0
 * if unchecked),
 * seed, forward_calls, backward_calls. Numbers that are not finite are null. After a failure:
 * verdict ("not checked"), message and the calls. Returns "" if `report` is NULL.
 */
HEED_API const char* heed_report_json(const heed_report* report);
/** Frees a report. Does nothing if it is NULL. */
HEED_API void heed_report_free(heed_report* report);

#ifdef __cplusplus
}
#endif
#endif
