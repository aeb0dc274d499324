#!/usr/bin/env bash
# docs/environment.md lists each environment variable that the sources name, and no other.
cd "$(dirname "$0")/../.." || exit 1
document=docs/environment.md
failures=0

# Words in capitals that are no variables, in files that use the environment: the words for values in
# --help, and others.
no_variables=' ARG CMD COMMAND DATA DIR FILE HOST MODE PORT MPI HYDRA PRETTY_NAME '

# The files of the program that use the environment, and the variables that they name as a whole string.
# The document has a prefix as `OMP_*`.
mapfile -t files < <(git ls-files -- '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' ':!tests' | xargs grep -lE '\b(secure_)?(get|set|unset)env\b|\benviron\b|_VARIABLE\b|launch_is_exported|\.variable\b')
((${#files[@]} > 9)) || { echo "FAILED: only ${#files[@]} files use the environment" && exit 1; }
names=$(grep -hoE '"[A-Z][A-Z0-9]+(_[A-Za-z0-9]+)*_?=?("|%)' "${files[@]}" | tr -d '"=%' | sort -u)
(($(wc -l <<<"$names") > 40)) || { echo "FAILED: only $(wc -l <<<"$names") variables were found" && exit 1; }
for name in $names; do
    [[ $no_variables != *" $name "* ]] || continue
    grep -qE "\`$name(\`|=[^\`]*\`|\*\`)" "$document" ||
        { echo "FAILED: $document does not list '$name', which $(grep -l "\"$name" "${files[@]}" | head -n 1) names" && failures=1; }
done

# The other way: what the document lists is in the sources, or is built in a command for a shell.
for name in $(grep -oE '`[A-Z][A-Z0-9]+(_[A-Za-z0-9]+)*_?(\*|=[^`]*)?`' "$document" | tr -d '`*' | sed 's/=.*//' | sort -u); do
    grep -qE "\"$name[\"=%]" "${files[@]}" || grep -qE "\"$name=?[\"%]" < <(git grep -hE '"[A-Z_]+=%' -- '*.c' ':!tests') ||
        { echo "FAILED: $document lists '$name', which no source names" && failures=1; }
done
exit $failures
