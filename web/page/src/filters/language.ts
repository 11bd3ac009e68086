// The text of filters is what the API takes: this only splits it into terms, for chips, and quotes what is added.

const PLAIN = /^[^\s"\\()*,[\]]+$/;

/** The terms of a text, as written. */
export function termsOf(text: string): string[] {
  if (text.trimStart().startsWith('[')) return text.trim() === '' ? [] : [text.trim()];
  const found: string[] = [];
  let term = '';
  let isQuoted = false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const one = text[at] ?? '';
    if (one === '\\' && isQuoted) {
      term += one + (text[++at] ?? '');
      continue;
    }
    if (one === '"') isQuoted = !isQuoted;
    if (!isQuoted && one === '(') depth++;
    if (!isQuoted && one === ')') depth--;
    if (/\s/.test(one) && !isQuoted && depth <= 0) {
      if (term !== '') found.push(term);
      term = '';
    } else term += one;
  }
  if (term !== '') found.push(term);
  return found;
}

export function withTerm(text: string, term: string): string {
  const terms = termsOf(text);
  return terms.includes(term) ? text : [...terms, term].join(' ');
}

export function withoutTerm(text: string, term: string): string {
  return termsOf(text)
    .filter((one) => one !== term)
    .join(' ');
}

/** `key:value`, quoted where it must be. */
export function equals(key: string, value: string, isExcluded = false): string {
  return `${isExcluded ? '-' : ''}${quoted(key.replace(/^-/, '"-"'))}:${quotedValue(value)}`;
}

function quoted(key: string): string {
  return PLAIN.test(key) && !key.includes(':') ? key : `"${escaped(key)}"`;
}

function quotedValue(value: string): string {
  return PLAIN.test(value) && !/^[<>]/.test(value) ? value : `"${escaped(value)}"`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"');
}
