# Completion of llmprof in bash: `llmprof completions bash > ~/.local/share/bash-completion/completions/llmprof`
_llmprof() {
    local -a words
    read -ra words <<< "${COMP_LINE:0:COMP_POINT}"
    if [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]]; then
        words+=("")
    fi
    local current=${words[-1]}
    local IFS=$'\n'
    COMPREPLY=($("${words[0]}" __complete "${words[@]:1}" 2> /dev/null))
    # Bash replaces what follows the last of these letters only.
    local breaks="=:" kept=""
    if [[ $COMP_WORDBREAKS == *["$breaks"]* && $current == *["$breaks"]* ]]; then
        kept=${current%"${current##*["$breaks"]}"}
    fi
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
complete -o bashdefault -o default -F _llmprof llmprof
