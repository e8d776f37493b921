/* decode.h: what the files of the stage that derives `decode` share. */
#ifndef MGPU_DECODE_H
#define MGPU_DECODE_H

#include "compiler/ir/rebuild.h"

/* Row i along an axis depends on the tokens at the places up to i - by, in a model in which no place sees later ones. on: the
 * axis is one of places; else nothing is known of it. */
typedef struct Slack {
    bool on;
    int64_t by;
} Slack;

typedef struct Decoding {
    const Graph *from;        /* the graph of a whole window, for each sample */
    Graph *to;                /* the graph of one place of each text */
    int64_t length;           /* of the window */
    Node *token, *place;      /* i32 [1], of each text */
    bool *depends;            /* by id in `from`: depends on the tokens */
    Slack (*slack)[MAX_RANK]; /* by id and axis */
    Node **whole;             /* by id: the value, whose rows after the place are arbitrary finite numbers */
    Node **rows;              /* by id and axis: its row at the place */
    Node ***steps;            /* by id of a loop: the carries and stacks after the place's step */
} Decoding;

/* decode.c */
Node *decode_whole(Decoding *, Node *);
Node *decode_row(Decoding *, Node *, int axis); /* at the place: the axis has extent 1 */
/* Makes a new variable and returns what the previous step left in it. */
Node *decode_state(Decoding *, const Node *of, Shape, Dtype, int *variable);
void decode_keep(Decoding *, int variable, Node *value);
Node *decode_select_first(Decoding *, Node *first, Node *later); /* `first` at the first place */

/* decode_rows.c. Returns NULL if there is no rule. */
Node *decode_row_by_rule(Decoding *, Node *, int axis);
void decode_find_slack(Decoding *, const Node *); /* sets the slack of its axes from that of its inputs */
#endif
