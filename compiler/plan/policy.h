/* policy.h: presets: named values of policies (runtime/schedule/policy.h).
 *
 * Presets are the schemes of other frameworks, so that their users see what theirs costs; `auto`, the default, is what the cost model
 * finds fastest. */
#ifndef MGPU_PLAN_POLICY_H
#define MGPU_PLAN_POLICY_H

#include "compiler/ir/program.h"
#include "runtime/schedule/policy.h"

enum { MOST_SLOTS = 4 };
extern const Policy PRESETS[]; /* the first one is auto; the last one's name is NULL */
/* "ps-cpu", "replicated-copy,input=slice,slots=1"; *split: "10,10,3" of "weights=[10,10,3]", else as it was; exit 2 for what is none */
Policy policy_read(const char *text, const char **split);
const char *policy_said(const Options *); /* for titles: ", plan staged-vars [one step stale]"; "": auto */
bool policy_is_auto(const Policy *);
int policy_way(const Policy *);         /* MGPU_WAY_... of gradients; AUTO: by cost */
bool policy_shards(const Policy *);     /* --shard may be with it */
bool policy_spans_nodes(const Policy *); /* nothing of it is in the memory of one node alone */
const Policy *policy_of(const Options *); /* that of --plan; auto */
#endif
