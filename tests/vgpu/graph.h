/* graph.h: captured graphs, for graph.c and driver.c. */
#ifndef VGPU_GRAPH_H
#define VGPU_GRAPH_H

#include "tests/vgpu/vgpu.h"

enum {
    VGPU_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    VGPU_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    VGPU_ERROR_STREAM_CAPTURE_MERGE = 902,
    VGPU_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    VGPU_ERROR_STREAM_CAPTURE_UNJOINED = 904,
    VGPU_ERROR_STREAM_CAPTURE_ISOLATION = 905,
    VGPU_ERROR_CAPTURED_EVENT = 907,
    VGPU_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908
};

typedef enum { NODE_WORK, NODE_RECORD, NODE_WAIT /* of events outside the graph */ } NodeKind;
typedef struct Node {
    NodeKind kind;
    Work work;
    CUevent event;
    int *before;
    int before_count;
} Node;

struct CUgraph_st {
    int capture;  /* its number */
    int uses;     /* by what was instantiated of it, and 1 until it is destroyed */
    bool spoiled; /* invalidated: something was called that must not be while a stream is captured */
    int mode;
    pthread_t thread; /* of the call that began it */
    VirtualDevice *device;
    Node *nodes;
    int count;
};
struct CUgraphExec_st {
    struct CUgraph_st *graph;
    int *chain, *chains, chain_count; /* of every node; all */
    Op *last;                         /* the end of the last launch */
};

void vgpu_add_stream(CUstream), vgpu_remove_stream(CUstream);
CUresult vgpu_begin_capture(CUstream, int mode);
CUresult vgpu_captured_event(CUevent); /* nobody may ask for it: what that is answered with */
int vgpu_capture_work(CUstream, Work); /* CUresult; takes the work */
int vgpu_capture_record(CUstream, CUevent, unsigned flags);
int vgpu_capture_wait(CUstream, CUevent, unsigned flags);
bool vgpu_follows_kernel(CUstream); /* what is issued to it now, a kernel and nothing else */
CUresult vgpu_end_capture(CUstream, struct CUgraph_st **);
void vgpu_free_graph(struct CUgraph_st *);
CUresult vgpu_instantiate(struct CUgraph_st *, struct CUgraphExec_st **);
CUresult vgpu_launch_graph(struct CUgraphExec_st *, CUstream);
void vgpu_free_exec(struct CUgraphExec_st *);
#endif
