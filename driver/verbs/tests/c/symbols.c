/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Loads a library and looks each name up in its version, as NCCL does: symbols LIBRARY NAME@VERSION... */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	int missing = 0;
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	for (int i = 2; i < argc; i++) {
		char *version = strchr(argv[i], '@');

		if (!version)
			return 2;
		*version++ = 0;
		if (!dlvsym(library, argv[i], version)) {
			fprintf(stderr, "%s@%s is missing\n", argv[i], version);
			missing++;
		}
	}
	printf("%d names\n", argc - 2);
	/* It stays, whatever is asked. */
	dlclose(library);
	return missing != 0;
}
