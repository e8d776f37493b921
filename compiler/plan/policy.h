/* policy.h: presets: named values of policies (runtime/schedule/policy.h).
 *
 * Presets are the schemes of other frameworks, so that their users see what those schemes cost. The default, `auto`, is what the
 * cost model predicts to be fastest. */
#ifndef MGPU_PLAN_POLICY_H
#define MGPU_PLAN_POLICY_H

#include "compiler/ir/program.h"
#include "runtime/schedule/policy.h"

enum { MOST_SLOTS = 4 };
extern const Policy PRESETS[]; /* the first one is auto; the last one's name is NULL */
/* Reads "ps-cpu" or "replicated-copy,input=slice,slots=1". Sets *split to "10,10,3" for "weights=[10,10,3]". Exits with 2 on an
 * error. */
Policy policy_read(const char *text, const char **split);
const char *policy_text(const Options *); /* for titles: ", plan staged-vars [one step stale]"; "": auto */
bool policy_is_auto(const Policy *);
int policy_implementation(const Policy *); /* MGPU_IMPLEMENTATION_... of gradients; AUTO: chosen by cost */
bool policy_shards(const Policy *);        /* may be combined with --shard */
bool policy_spans_nodes(const Policy *);   /* does not need memory that the devices of one node share */
const Policy *policy_of(const Options *);  /* the policy of --plan; else auto */
#endif
