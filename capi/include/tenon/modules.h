#ifndef TENON_MODULES_H
#define TENON_MODULES_H

/**
 * @file
 * The wing of modules: values that a module's attributes can have, modules, and the files in which
 * they are stored. tenon.h includes this header. A library that was built with TENON_MODULES=OFF
 * has all of these functions, but those that return a tenon_status return TENON_UNSUPPORTED.
 */

#include <tenon/archive.h>
#include <tenon/module.h>
#include <tenon/package.h>
#include <tenon/shared_weights.h>
#include <tenon/value.h>
#include <tenon/weights.h>

#endif /* TENON_MODULES_H */
