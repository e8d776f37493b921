/* server.c: reads messages of the client, writes answers and diagnostics, and runs child processes for them (lsp.h).
 *
 * A child for a request starts at once and writes one line: R and the result, or E and an error. A child that analyses a changed
 * document starts when no message waits, so a burst of changes needs one analysis; read_found() describes its lines. A running
 * analysis continues until it has reported diagnostics, so that they appear during typing, too; the next change then kills it. */
#include "compiler/lsp/lsp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PARSE_ERROR = -32700,
    INVALID_REQUEST = -32600,
    NOT_FOUND = -32601,
    INTERNAL_ERROR = -32603,
    NOT_INITIALIZED = -32002,
    CANCELLED = -32800
};
enum { MOST_CHILDREN = 8, CHILD_SECONDS = 20, MOST_MESSAGE = 1 << 28 };

typedef struct FileDiagnostic {
    char *uri, *diagnostic;
} FileDiagnostic; /* diagnostic: NULL for a file that the document depends on */
typedef struct FileDiagnostics {
    FileDiagnostic *list;
    int count;
} FileDiagnostics;
typedef struct OpenDocument {
    char *uri;
    bool changed;
    FileDiagnostics found;
} OpenDocument; /* an open document and the results of its last analysis */
typedef struct Child {
    pid_t pid;
    int fd;
    char *id, *uri;
    bool settled;
    FileDiagnostics found;
    Text output;
} Child; /* id: of the request; NULL: the child analyses the document `uri` */

static Child children[MOST_CHILDREN + 1];
static int child_count;
static OpenDocument *open_documents;
static int open_document_count;
static Text input; /* bytes of incomplete messages */
static bool initialized, closing;
static void (*check_file)(const char *path);

/* ---- output */

static void send(const char *body)
{
    printf("Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    fflush(stdout);
}

static void send_error(const char *id, int code, const char *message)
{
    Text t = {0};
    text_add(&t, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":", id, code);
    json_text(&t, message);
    text_add(&t, "}}");
    send(text_take(&t));
}

static void send_result(const char *id, const char *result)
{
    send(format("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, result));
}

static char *copy_of(const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        no_memory(strlen(text));
    return copy;
}

/* ---- diagnostics by file */

static void free_found(FileDiagnostics *f)
{
    for (int i = 0; i < f->count; i++) {
        free(f->list[i].uri);
        free(f->list[i].diagnostic);
    }
    free(f->list);
    *f = (FileDiagnostics){0};
}

/* Publishes the distinct diagnostics of the file from all documents. */
static void publish(const char *uri)
{
    Text t = {0};
    Map said = {0};
    text_add(&t, "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/publishDiagnostics\",\"params\":{\"uri\":");
    json_text(&t, uri);
    text_add(&t, ",\"diagnostics\":[");
    for (int r = 0; r < open_document_count; r++)
        for (int i = 0; i < open_documents[r].found.count; i++) {
            const FileDiagnostic *f = &open_documents[r].found.list[i];
            if (!f->diagnostic || strcmp(f->uri, uri) != 0 || map_get(&said, f->diagnostic))
                continue;
            text_add(&t, "%s%s", said.count ? "," : "", f->diagnostic);
            map_set(&said, f->diagnostic, &said);
        }
    text_add(&t, "]}}");
    send(text_take(&t));
}

static OpenDocument *document_with(const char *uri)
{
    for (int i = 0; i < open_document_count; i++)
        if (strcmp(open_documents[i].uri, uri) == 0)
            return &open_documents[i];
    return NULL;
}

/* Replaces the document's diagnostics. */
static void settle(OpenDocument *r, FileDiagnostics found)
{
    FileDiagnostics before = r->found;
    Map files = {0};
    for (int i = 0; i < before.count; i++)
        map_set(&files, before.list[i].uri, r);
    for (int i = 0; i < found.count; i++)
        map_set(&files, found.list[i].uri, r);
    map_set(&files, r->uri, r);
    r->found = found;
    for (int i = 0; i < files.count; i++)
        publish(files.keys[i]);
    free_found(&before);
}

static void set_changed(const char *uri)
{
    for (int r = 0; r < open_document_count; r++) {
        bool depends = strcmp(open_documents[r].uri, uri) == 0;
        for (int i = 0; i < open_documents[r].found.count; i++)
            depends = depends || strcmp(open_documents[r].found.list[i].uri, uri) == 0;
        open_documents[r].changed = open_documents[r].changed || depends;
    }
}

/* ---- children */

/* Returns 0 in the child, -1 if no process could be created. */
static pid_t start_child(const char *id, const char *uri)
{
    int ends[2];
    fflush(stdout);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) { /* Keeps output of the child out of the messages, and the client's messages from the child. */
        dup2(ends[1], ANSWERS);
        int nothing = open("/dev/null", O_RDWR);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            dup2(nothing, fd);
        setrlimit(RLIMIT_CPU, &(struct rlimit){CHILD_SECONDS, CHILD_SECONDS});
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        alarm(4 * CHILD_SECONDS);
        return 0;
    }
    close(ends[1]);
    if (pid < 0)
        close(ends[0]);
    else
        children[child_count++] = (Child){.pid = pid, .fd = ends[0], .id = copy_of(id), .uri = copy_of(uri)};
    return pid;
}

static void end_child(Child *c, bool stop)
{
    if (stop)
        kill(c->pid, SIGKILL);
    close(c->fd);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(c->id);
    free(c->uri);
    free(c->output.data);
    free_found(&c->found);
    *c = children[--child_count];
}

static void analyse_changed(void)
{
    for (int r = 0; r < open_document_count; r++) {
        Child *old = NULL;
        for (int i = 0; i < child_count; i++)
            if (children[i].uri && strcmp(children[i].uri, open_documents[r].uri) == 0)
                old = &children[i];
        if (!open_documents[r].changed || (old && !old->settled) || (!old && child_count >= MOST_CHILDREN))
            continue;
        if (old)
            end_child(old, true);
        pid_t pid = start_child(NULL, open_documents[r].uri);
        if (pid == 0) {
            diagnose(document_of(open_documents[r].uri), check_file);
            _exit(0);
        }
        open_documents[r].changed = pid < 0; /* retried later */
    }
}

/* Reads a line of diagnose(): D, file, tab, diagnostic; or F and a file that it depends on; or S: diagnostics are complete so
 * far. */
static void read_found(Child *c, char *line)
{
    OpenDocument *r = document_with(c->uri);
    char *tab = strchr(line, '\t');
    if (*line == 'S' && r) {
        FileDiagnostics found = c->found;
        c->found = (FileDiagnostics){0};
        c->settled = true;
        settle(r, found);
        return;
    }
    if ((*line != 'D' || !tab) && *line != 'F')
        return;
    if (tab)
        *tab = 0;
    FileDiagnostic *more = realloc(c->found.list, sizeof *more * (size_t)(c->found.count + 1));
    if (!more)
        no_memory(sizeof *more);
    c->found.list = more;
    more[c->found.count++] = (FileDiagnostic){copy_of(line + 1), tab ? copy_of(tab + 1) : NULL};
}

#define NO_ANSWER "mgpuc ended or took too long; mgpuc check says more"

/* Handles the end of the child. */
static void take_answer(Child *c)
{
    const char *said = text_of(&c->output);
    size_t length = strlen(said);
    bool whole = length > 1 && said[length - 1] == '\n';
    if (c->id && whole && *said == 'R')
        send_result(c->id, copy_text(said + 1, length - 2));
    else if (c->id && whole && *said == 'E')
        send(format("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}", c->id, copy_text(said + 1, length - 2)));
    else if (c->id)
        send_error(c->id, INTERNAL_ERROR, NO_ANSWER);
    else if (!c->settled) {
        Text t = {0};
        text_add(&t,
                 "D%s\t{\"range\":{\"start\":{\"line\":0,\"character\":0},\"end\":{\"line\":0,\"character\":0}},\"severity\":1,"
                 "\"source\":\"mgpuc\",\"message\":\"" NO_ANSWER "\"}",
                 c->uri);
        read_found(c, t.data);
        free(t.data);
        read_found(c, (char[]){"S"});
    }
}

static void read_child(Child *c)
{
    char block[1 << 16];
    ssize_t n = read(c->fd, block, sizeof block);
    if (n > 0)
        text_bytes(&c->output, block, (size_t)n);
    while (!c->id && c->output.length) {
        char *end = memchr(c->output.data, '\n', c->output.length);
        if (!end)
            break;
        *end = 0;
        read_found(c, c->output.data);
        size_t line = (size_t)(end - c->output.data) + 1;
        memmove(c->output.data, end + 1, c->output.length - line + 1);
        c->output.length -= line;
    }
    if (n > 0)
        return;
    take_answer(c);
    end_child(c, false);
}

/* ---- requests and notifications */

static const char CAPABILITIES[] =
    "{\"capabilities\":{\"positionEncoding\":\"utf-16\",\"textDocumentSync\":{\"openClose\":true,\"change\":2,\"save\":true},"
    "\"hoverProvider\":true,"
    "\"definitionProvider\":true,\"referencesProvider\":true,\"documentSymbolProvider\":true,\"documentFormattingProvider\":true,"
    "\"renameProvider\":{\"prepareProvider\":true},\"completionProvider\":{\"triggerCharacters\":[\"(\",\",\",\">\"]},"
    "\"signatureHelpProvider\":{\"triggerCharacters\":[\"(\",\",\"]}},\"serverInfo\":{\"name\":\"mgpuc\",\"version\":"
    "\"" MGPU_VERSION "\"}}";

static const struct {
    const char *method;
    Answer *answer;
} REQUESTS[] = {
    {"textDocument/hover", answer_hover},
    {"textDocument/definition", answer_definition},
    {"textDocument/references", answer_references},
    {"textDocument/prepareRename", answer_prepare_rename},
    {"textDocument/rename", answer_rename},
    {"textDocument/completion", answer_completion},
    {"textDocument/signatureHelp", answer_signature},
    {"textDocument/documentSymbol", answer_symbols},
    {"textDocument/formatting", answer_format},
};

static void request(const char *id, const char *method, const Json *params)
{
    if (strcmp(method, "initialize") == 0) {
        if (initialized)
            send_error(id, INVALID_REQUEST, "initialize comes once");
        else
            send_result(id, CAPABILITIES);
        initialized = true;
        return;
    }
    if (!initialized || closing) {
        send_error(id, closing ? INVALID_REQUEST : NOT_INITIALIZED,
                   closing ? "nothing is asked after shutdown" : "initialize comes first");
        return;
    }
    if (strcmp(method, "shutdown") == 0) {
        closing = true;
        send_result(id, "null");
        return;
    }
    for (int i = 0; i < COUNT(REQUESTS); i++)
        if (strcmp(REQUESTS[i].method, method) == 0) {
            pid_t pid = start_child(id, NULL);
            if (pid < 0)
                send_error(id, INTERNAL_ERROR, format("no process can be started: %s", strerror(errno)));
            if (pid != 0)
                return;
            const char *result = REQUESTS[i].answer(params);
            write_answer("R", 1);
            write_answer(result, strlen(result));
            write_answer("\n", 1);
            _exit(0);
        }
    send_error(id, NOT_FOUND, format("mgpuc has no method '%s'", method));
}

/* Returns the id of a request as JSON. */
static const char *id_text(const Json *id)
{
    Text t = {0};
    if (id && id->kind == JSON_TEXT)
        json_text(&t, id->text);
    else
        text_add(&t, "%s", id && id->kind == JSON_NUMBER ? id->text : "null");
    return text_take(&t);
}

static void cancel(const Json *params)
{
    const char *id = id_text(mgpu_json_member(params, "id"));
    for (int i = 0; i < child_count; i++)
        if (children[i].id && strcmp(children[i].id, id) == 0) {
            send_error(id, CANCELLED, "cancelled");
            end_child(&children[i], true);
            return;
        }
}

static void close_document(const char *uri)
{
    document_close(uri);
    set_changed(uri);
    OpenDocument *r = document_with(uri);
    if (!r)
        return;
    for (int i = child_count - 1; i >= 0; i--)
        if (children[i].uri && strcmp(children[i].uri, uri) == 0)
            end_child(&children[i], true);
    settle(r, (FileDiagnostics){0});
    free(r->uri);
    *r = open_documents[--open_document_count];
}

static void open_document(const char *uri, const char *text)
{
    document_open(uri, text);
    if (!document_with(uri)) {
        OpenDocument *more = realloc(open_documents, sizeof *more * (size_t)(open_document_count + 1));
        if (!more)
            no_memory(sizeof *more);
        open_documents = more;
        open_documents[open_document_count++] = (OpenDocument){.uri = copy_of(uri)};
    }
    document_with(uri)->changed = true;
    set_changed(uri);
}

static void notification(const char *method, const Json *params)
{
    const Json *document = mgpu_json_member(params, "textDocument");
    const char *uri = mgpu_json_text(document, "uri");
    if (strcmp(method, "exit") == 0)
        _exit(closing ? 0 : 1);
    if (strcmp(method, "$/cancelRequest") == 0)
        cancel(params);
    if (!initialized || closing || !*uri)
        return;
    if (strcmp(method, "textDocument/didOpen") == 0) {
        open_document(uri, mgpu_json_text(document, "text"));
    } else if (strcmp(method, "textDocument/didClose") == 0) {
        close_document(uri);
    } else if (strcmp(method, "textDocument/didChange") == 0 && document_of(uri)) {
        document_change(document_of(uri), mgpu_json_member(params, "contentChanges"));
        set_changed(uri);
    } else if (strcmp(method, "textDocument/didSave") == 0) {
        set_changed(uri);
    }
}

static void handle(const char *body, size_t length)
{
    const char *error = NULL;
    Json *message = mgpu_json_read(body, length, &error);
    const Json *id = mgpu_json_member(message, "id");
    const char *method = mgpu_json_text(message, "method");
    bool answer = !*method && (mgpu_json_member(message, "result") || mgpu_json_member(message, "error"));
    if (!message)
        send_error("null", PARSE_ERROR, format("the message is no JSON: %s", error));
    else if (answer)
        ; /* no request was sent, so the answer is ignored */
    else if (message->kind != JSON_OBJECT || !*method)
        send_error(id_text(id), INVALID_REQUEST, "the message has no method");
    else if (id)
        request(id_text(id), method, mgpu_json_member(message, "params"));
    else
        notification(method, mgpu_json_member(message, "params"));
    free(message);
}

/* ---- input */

/* Handles the first complete message of the input. Returns whether there was one. */
static bool take_message(void)
{
    size_t length = 0, head = 0;
    bool known = false;
    for (;;) { /* header lines up to an empty one */
        char *line = input.data + head, *end = input.length > head ? memchr(line, '\n', input.length - head) : NULL;
        if (!end)
            return false;
        head = (size_t)(end - input.data) + 1;
        static const char LENGTH[] = "Content-Length:";
        if (strncasecmp(line, LENGTH, strlen(LENGTH)) == 0) {
            char *after;
            unsigned long n = strtoul(line + strlen(LENGTH), &after, 10);
            known = after != line + strlen(LENGTH) && n <= MOST_MESSAGE;
            length = n;
        } else if (end == line || (end == line + 1 && *line == '\r')) {
            break;
        }
    }
    if (known && input.length - head < length)
        return false;
    if (known)
        handle(input.data + head, length);
    else
        send_error("null", PARSE_ERROR, "a message begins with Content-Length: and the number of its bytes, at most 268435456");
    head += known ? length : 0;
    memmove(input.data, input.data + head, input.length - head + 1);
    input.length -= head;
    return true;
}

static void read_input(void)
{
    char block[1 << 16];
    ssize_t n = read(STDIN_FILENO, block, sizeof block);
    if (n == 0 || (n < 0 && errno != EINTR))
        _exit(closing ? 0 : 1); /* The client has closed the input. */
    if (n > 0)
        text_bytes(&input, block, (size_t)n);
}

/* Waits for messages of the client and lines of children, and handles them. */
static void serve_once(void)
{
    while (child_count < MOST_CHILDREN && take_message())
        ;
    struct pollfd wait[MOST_CHILDREN + 2];
    bool room = child_count < MOST_CHILDREN, changed = false;
    int count = 0;
    for (; count < child_count; count++)
        wait[count] = (struct pollfd){children[count].fd, POLLIN, 0};
    wait[count] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    for (int r = 0; r < open_document_count; r++)
        changed = changed || open_documents[r].changed;
    int ready = poll(wait, (nfds_t)(count + room), changed && room ? 20 : -1);
    if (ready == 0 || (changed && !(room && wait[count].revents)))
        analyse_changed();
    if (ready <= 0)
        return;
    if (room && wait[count].revents)
        read_input();
    for (int i = child_count - 1; i >= 0; i--) /* end_child() moves the last child */
        for (int k = 0; k < count; k++)
            if (wait[k].fd == children[i].fd && wait[k].revents) {
                read_child(&children[i]);
                break;
            }
}

int lsp_serve(void (*check)(const char *path))
{
    check_file = check;
    signal(SIGPIPE, SIG_IGN);
    for (;;) { /* Data kept between messages is in malloc memory. */
        Memory *own = memory_new(), *outer = memory_use(own);
        serve_once();
        memory_use(outer);
        memory_free(own);
    }
}
