#compdef llmprof
# Completion of llmprof in zsh: `llmprof completions zsh > ~/.zfunc/_llmprof`
_llmprof() {
    local -a found open closed
    found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2> /dev/null)}")
    found=(${found:#})
    if (( ! ${#found} )); then
        _files
        return
    fi
    open=(${(M)found:#*=})
    closed=(${found:#*=})
    (( ${#open} )) && compadd -S '' -- $open
    (( ${#closed} )) && compadd -- $closed
}
if [[ $funcstack[1] == _llmprof ]]; then
    _llmprof "$@"
else
    compdef _llmprof llmprof
fi
