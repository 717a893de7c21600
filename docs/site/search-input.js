// The search reads its field after each key. On a phone words also come without keys: by a swipe, by voice, by pasting,
// or as Chinese characters that are chosen from a list.
document.addEventListener("input", ({ target }) => {
  if (target.matches(".md-search__input")) target.dispatchEvent(new Event("keyup"));
});
