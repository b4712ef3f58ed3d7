"use strict";
// A sentence is kept in English with what belongs into its places, and is said in a language when it is shown.
class Said {
  constructor(text, places) { this.text = text; this.places = places; }
  in(words) {
    const text = Object.hasOwn(words, this.text) ? words[this.text] : this.text;
    return text.replace(/\{(\w+)\}/g, (_, name) => spoken(this.places[name], words));
  }
  toString() { return this.in({}); }
}
const say = (text, places = {}) => new Said(text, places);
const spoken = (value, words) => {
  if (Array.isArray(value)) return value.map((each) => spoken(each, words)).join("; ");
  return value instanceof Said ? value.in(words) : String(value);
};

// An error in a sentence of ours, and what is said of any error: those of a browser are in its own words.
function refusal(text, places) {
  const said = say(text, places);
  return Object.assign(Error(String(said)), { said });
}
const reason = (error) => error.said || error.message;
