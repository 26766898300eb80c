/*
 * A stand-in for Pyxis, the SPANK plugin that gives srun its --container-* options. It starts no container: the step
 * runs on the host. What it does, so that job scripts written for Pyxis run on a machine without GPUs or images:
 *
 *  - it registers Pyxis' options (those of 0.20) and refuses what Pyxis refuses: an empty image, a malformed mount;
 *  - an image is a folder of commands: <images>/<image, with '/', ':' and '#' as '_'> if there is one, else <default>.
 *    It goes in front of the step's PATH, as an image's own commands would be found first;
 *  - a mount's source must exist, and the step starts in --container-workdir;
 *  - the step sees what it was given in PYXIS_STANDIN_IMAGE, _MOUNTS, _WORKDIR, _NAME, _ENV, _SAVE and _FLAGS, so that
 *    tests can ask.
 *
 * plugstack.conf: required <path>/pyxis_standin.so images=<folder> default=<folder>
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(pyxis_standin, 1)

enum option { IMAGE, MOUNTS, WORKDIR, NAME, ENV, SAVE, FLAGS };

static const char *const exported[] = {"PYXIS_STANDIN_IMAGE", "PYXIS_STANDIN_MOUNTS", "PYXIS_STANDIN_WORKDIR",
                                       "PYXIS_STANDIN_NAME",  "PYXIS_STANDIN_ENV",    "PYXIS_STANDIN_SAVE"};
static const char *const flags[] = {"container-mount-home",    "no-container-mount-home", "container-remap-root",
                                    "no-container-remap-root", "container-entrypoint",    "no-container-entrypoint",
                                    "container-writable",      "container-readonly"};
static char *given[FLAGS];
static unsigned int flags_given;
static const char *images, *fallback;

/* Both the submitting srun and the node parse the options, so both complain. */
static int refuse(const char *what, const char *value)
{
	slurm_error("pyxis stand-in: %s: \"%s\"", what, value ? value : "");
	return -1;
}

/* Pyxis takes SRC, SRC:DST and SRC:DST:FLAGS, separated by commas; paths are absolute. */
static int check_mount(char *mount)
{
	char *rest = mount, *source = strsep(&rest, ":"), *target = strsep(&rest, ":");

	if (*source == '\0' || (target && *target != '/'))
		return refuse("--container-mounts: wants SRC:DST[:FLAGS] with an absolute DST", target ? target : source);
	return 0;
}

static int each_mount(const char *list, int (*check)(char *))
{
	char *copy = strdup(list), *rest = copy, *mount;
	int rc = copy ? 0 : -1;

	while (rc == 0 && (mount = strsep(&rest, ",")))
		rc = check(mount);
	free(copy);
	return rc;
}

static int take(int which, const char *value, int remote)
{
	(void)remote;
	if (which > FLAGS) {
		flags_given |= 1u << (which - FLAGS - 1);
		return 0;
	}
	if (!value || !*value)
		return refuse("an option wants a value", exported[which]);
	if (which == MOUNTS && each_mount(value, check_mount) < 0)
		return -1;
	free(given[which]);
	given[which] = strdup(value);
	return given[which] ? 0 : -1;
}

static int source_exists(char *mount)
{
	struct stat found;

	mount[strcspn(mount, ":")] = '\0';
	if (*mount == '/' && stat(mount, &found) < 0)
		return refuse("--container-mounts: no such file or directory on this node", mount);
	return 0;
}

static int register_option(spank_t sp, const char *name, const char *value, int which)
{
	struct spank_option option = {(char *)name, (char *)value, "[pyxis stand-in] as Pyxis, but starts no container",
	                              value != NULL, which, take};

	return spank_option_register(sp, &option) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
	static const char *const names[] = {"container-image", "container-mounts", "container-workdir",
	                                    "container-name",  "container-env",    "container-save"};
	static const char *const values[] = {"IMAGE", "SRC:DST[:FLAGS]", "PATH", "NAME", "NAME[,NAME...]", "PATH"};
	int i, rc = 0;

	for (i = 0; i < argc; i++) {
		if (strncmp(argv[i], "images=", 7) == 0)
			images = argv[i] + 7;
		else if (strncmp(argv[i], "default=", 8) == 0)
			fallback = argv[i] + 8;
	}
	for (i = 0; i < FLAGS; i++)
		rc |= register_option(sp, names[i], values[i], i);
	for (i = 0; i < (int)(sizeof(flags) / sizeof(*flags)); i++)
		rc |= register_option(sp, flags[i], NULL, FLAGS + 1 + i);
	return rc;
}

/* <images>/<image> with the characters of an image reference that cannot be in a folder's name replaced. */
static int image_folder(char *folder, size_t size)
{
	struct stat found;
	char *name;
	int start = snprintf(folder, size, "%s/", images ? images : "");

	if (start < 0 || (size_t)start + strlen(given[IMAGE]) >= size)
		return refuse("--container-image: too long", given[IMAGE]);
	strcpy(folder + start, given[IMAGE]);
	for (name = folder + start; *name; name++)
		if (strchr("/:#", *name))
			*name = '_';
	if (stat(folder, &found) < 0 && snprintf(folder, size, "%s", fallback ? fallback : "") >= (int)size)
		return -1;
	return 0;
}

static int put_image_on_path(spank_t sp)
{
	char folder[4096], before[32768] = "/usr/local/bin:/usr/bin:/bin", path[sizeof(folder) + sizeof(before)];

	if (image_folder(folder, sizeof(folder)) < 0)
		return -1;
	spank_getenv(sp, "PATH", before, sizeof(before));
	snprintf(path, sizeof(path), "%s:%s", folder, before);
	return spank_setenv(sp, "PATH", path, 1) == ESPANK_SUCCESS ? 0 : -1;
}

static int tell_step(spank_t sp)
{
	char list[512] = "";
	size_t i;

	for (i = 0; i < FLAGS; i++)
		if (given[i] && spank_setenv(sp, exported[i], given[i], 1) != ESPANK_SUCCESS)
			return refuse("cannot tell the step its option", exported[i]);
	for (i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (flags_given & (1u << i))
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", *list ? "," : "", flags[i]);
	return spank_setenv(sp, "PYXIS_STANDIN_FLAGS", list, 1) == ESPANK_SUCCESS ? 0 : -1;
}

/* On the node, as the user, before the task starts. */
int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (!given[IMAGE] && !given[NAME])
		return 0;
	if (tell_step(sp) < 0 || (given[MOUNTS] && each_mount(given[MOUNTS], source_exists) < 0))
		return -1;
	if (given[WORKDIR] && chdir(given[WORKDIR]) < 0)
		return refuse(strerror(errno), given[WORKDIR]);
	return given[IMAGE] ? put_image_on_path(sp) : 0;
}
