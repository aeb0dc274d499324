#!/usr/bin/env bash
# Checks that docs/reference/environment.md lists exactly the environment variables that the sources name.
cd "$(dirname "$0")/../.." || exit 1
document=docs/reference/environment.md
failures=0

# Words in capitals that are not environment variables, although they are in files that use the
# environment. An example is a placeholder in --help.
no_variables=' ARG CMD COMMAND DATA DIR FILE HOST MODE PORT MPI MPICH HYDRA PRETTY_NAME '

# Lists the program's files that use the environment, and the variables that they name as a whole
# string. A prefix appears in the document as `OMP_*`.
mapfile -t files < <(git ls-files -- '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' ':!tests' | xargs grep -lE '\b(secure_)?(get|set|unset)env\b|\benviron\b|_VARIABLE\b|launch_is_exported|\.variable\b')
((${#files[@]} > 9)) || { echo "FAILED: the search found only ${#files[@]} files that use the environment" && exit 1; }
names=$(grep -hoE '"[A-Z][A-Z0-9]+(_[A-Za-z0-9]+)*_?=?("|%)' "${files[@]}" | tr -d '"=%' | sort -u)
(($(wc -l <<<"$names") > 40)) || { echo "FAILED: the search found only $(wc -l <<<"$names") names of variables" && exit 1; }
for name in $names; do
    [[ $no_variables != *" $name "* ]] || continue
    grep -qE "\`$name(\`|=[^\`]*\`|\*\`)" "$document" ||
        { echo "FAILED: $document does not list '$name', which $(grep -l "\"$name" "${files[@]}" | head -n 1) names" && failures=1; }
done

# Each variable in the document must be in the sources, or in a shell command that they build.
for name in $(grep -oE '`[A-Z][A-Z0-9]+(_[A-Za-z0-9]+)*_?(\*|=[^`]*)?`' "$document" | tr -d '`*' | sed 's/=.*//' | sort -u); do
    grep -qE "\"$name[\"=%]" "${files[@]}" || grep -qE "\"$name=?[\"%]" < <(git grep -hE '"[A-Z_]+=%' -- '*.c' ':!tests') ||
        { echo "FAILED: $document lists '$name', which no source names" && failures=1; }
done
exit $failures
