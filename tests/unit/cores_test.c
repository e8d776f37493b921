/* How many threads compute: limits of control groups of both versions in a folder that looks like /sys/fs/cgroup, values
 * of OMP_NUM_THREADS, affinity, --threads. */
#include "runtime/base/cores.h"
#include "runtime/run/commands.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder; /* of this test's files */
static int failed;

static void say(const char *name, bool good)
{
    printf(good ? "ok %s\n" : "not ok %s: see its case\n", name);
    failed += !good;
    fflush(stdout);
}

static void write_text(const char *path, const char *text)
{
    char *whole = mgpu_format("cd '%s' && mkdir -p \"$(dirname '%s')\" && printf '%%b\\n' '%s' > '%s'", folder, path, text, path);
    if (system(whole) != 0)
        mgpu_fail(3, "%s: cannot be written", path);
    free(whole);
}

static double limit(const char *membership)
{
    write_text("membership", membership);
    char *root = mgpu_format("%s/cgroup", folder), *file = mgpu_format("%s/membership", folder);
    double found = mgpu_cgroup_limit(root, file);
    free(root);
    free(file);
    return found;
}

static void expect(const char *name, double found, double expected)
{
    if (found != expected)
        printf("# %s: %g found, %g expected\n", name, found, expected);
    say(name, found == expected);
}

static void test_groups(void)
{
    say("cgroup/no-file", isinf(mgpu_cgroup_limit("/nowhere", "/nowhere/cgroup")));
    expect("cgroup/nothing-mounted", limit("0::/"), INFINITY);
    write_text("cgroup/cpu.max", "max 100000");
    expect("cgroup2/max", limit("0::/"), INFINITY);
    write_text("cgroup/a/b/cpu.max", "150000 100000");
    expect("cgroup2/own", limit("0::/a/b"), 1.5);
    expect("cgroup2/below", limit("0::/a/b/c/d"), 1.5);
    expect("cgroup2/another", limit("0::/a/c"), INFINITY);
    expect("cgroup2/a name that begins alike", limit("0::/a/bc"), INFINITY);
    write_text("cgroup/a/cpu.max", "50000 100000");
    expect("cgroup2/the-group-above", limit("0::/a/b"), 0.5);
    write_text("cgroup/cpu.max", "800000 100000");
    expect("cgroup2/path-of-the-host", limit("0::/docker/0123456789abcdef"), 8);
    write_text("cgroup/cpu.max", "junk");
    expect("cgroup2/junk", limit("0::/"), INFINITY);
    write_text("cgroup/cpu.max", "100000 0");
    expect("cgroup2/no-period", limit("0::/"), INFINITY);
    write_text("cgroup/cpu.max", "");
    expect("cgroup2/empty", limit("0::/"), INFINITY);
    write_text("cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "250000");
    write_text("cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000");
    expect("cgroup1/own", limit("3:memory:/x\\n2:cpu,cpuacct:/x\\n0::/"), 2.5);
    expect("cgroup1/cpuacct alone is another hierarchy", limit("2:cpuacct:/x"), INFINITY);
    expect("cgroup1/cpuset is another one", limit("2:cpuset:/x"), INFINITY);
    write_text("cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1");
    expect("cgroup1/none", limit("2:cpu,cpuacct:/x"), INFINITY);
    write_text("cgroup/cpu/cpu.cfs_quota_us", "400000");
    write_text("cgroup/cpu/cpu.cfs_period_us", "100000");
    expect("cgroup1/mounted-as-cpu", limit("2:cpuacct,cpu:/not/here"), 4);
    expect("cgroup1/in-its-own-folder", limit("1:cpu:/"), 4);
    write_text("cgroup/cpu/cpu.cfs_period_us", "");
    expect("cgroup1/no-period", limit("1:cpu:/"), INFINITY);
}

static void test_omp(void)
{
    static const struct {
        const char *value;
        int threads;
    } CASES[] = {{"4", 4},
                 {" 8 ", 8},
                 {"4,2", 4},
                 {"4,", 4},
                 {"0", -1},
                 {"-3", -1},
                 {"abc", -1},
                 {"4x", -1},
                 {"2.5", -1},
                 {"", -1},
                 {",2", -1},
                 {"99999999", MGPU_MOST_THREADS},
                 {"99999999999999999999999", MGPU_MOST_THREADS}};
    for (int i = 0; i < MGPU_COUNT(CASES); i++) {
        char *name = mgpu_format("omp/'%s'", CASES[i].value);
        expect(name, mgpu_omp_threads(CASES[i].value), CASES[i].threads);
        free(name);
    }
}

/* in a process of its own that may use `cores` of the cores and has the variable */
static bool says(int cores, const char *omp, int threads, int devices, const char *words)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int count;
        int *allowed = mgpu_cores_allowed(&count);
        cpu_set_t set;
        CPU_ZERO(&set);
        for (int i = 0; i < cores && i < count; i++)
            CPU_SET((size_t)allowed[i], &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            _exit(3);
        if (omp)
            setenv("OMP_NUM_THREADS", omp, 1);
        else
            unsetenv("OMP_NUM_THREADS");
        RunOptions o = {.program = "test", .threads = threads, .threads_given = threads > 0};
        if (!o.threads_given)
            o.threads = mgpu_default_threads("test");
        char text[200];
        int used = mgpu_used_threads(&o, &(mgpu_plan){.kind = "host", .devices = devices}, text, sizeof text);
        bool good = strncmp(text, words, strlen(words)) == 0 && used == atoi(words);
        if (!good)
            printf("# '%s' (%d), '%s' expected\n", text, used, words);
        free(allowed);
        fflush(stdout);
        _exit(!good);
    }
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_choice(void)
{
    int count;
    free(mgpu_cores_allowed(&count));
    say("affinity/known", count >= 1);
    say("threads/one core", says(1, NULL, 0, 1, "1 thread on 1 "));
    say("threads/more than cores", says(1, NULL, 16, 1, "16 threads on 1 "));
    say("threads/a device each", says(1, NULL, 0, 3, "3 threads on 1 "));
    say("threads/fewer than devices", says(1, NULL, 1, 2, "2 threads on 1 "));
    say("threads/OMP_NUM_THREADS of more", says(1, "12", 0, 1, "1 thread on 1 "));
    if (count < 2)
        return;
    say("threads/two cores", says(2, NULL, 0, 1, "2 threads on 2 "));
    say("threads/OMP_NUM_THREADS", says(2, "1", 0, 1, "1 thread on 2 "));
    say("threads/OMP_NUM_THREADS, a list", says(2, "1,8", 0, 1, "1 thread on 2 "));
    say("threads/OMP_NUM_THREADS 0", says(2, "0", 0, 1, "2 threads on 2 "));
    say("threads/OMP_NUM_THREADS of blanks", says(2, " ", 0, 1, "2 threads on 2 "));
    say("threads/--threads before OMP_NUM_THREADS", says(2, "1", 2, 1, "2 threads on 2 "));
}

int main(void)
{
    const char *temporary = getenv("TMPDIR");
    char *name = mgpu_format("%s/mgpu-cores-test-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    folder = mkdtemp(name);
    if (!folder)
        mgpu_fail(3, "%s: %s", name, strerror(errno));
    test_groups();
    test_omp();
    test_choice();
    char *command = mgpu_format("rm -r '%s'", folder);
    if (system(command) != 0)
        failed++;
    free(command);
    free(name);
    return failed != 0;
}
