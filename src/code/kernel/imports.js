// SPDX-License-Identifier: Apache-2.0
// imports.js - rewrite the imports of a cell of JavaScript
//
// The inspector evaluates cells as scripts, in which V8 allows neither import() nor import
// statements. A scanner that knows strings, comments, regular expressions and templates replaces
// them with calls of a function of the kernel, and keeps the number of lines.
(() => {
  'use strict';
  const WORD = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
  const SPACE = /(?:\s|\/\/.*|\/\*[^]*?\*\/)*/y;
  const STRING = /'(?:[^'\\]|\\[^])*'|"(?:[^"\\]|\\[^])*"/y;
  const REGEX = /\/(?:[^\\/[\n]|\\.|\[(?:[^\\\]\n]|\\.)*\])+\/\w*/y;
  const STATIC = /import\s*(?:([^'"();]*?)\s*from\s*)?('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")(?:\s*(?:with|assert)\s*(\{[^}]*\}))?[ \t]*;?/y;
  // A slash after one of these words begins a regular expression, not a division.
  const BEFORE_VALUE = new Set(['return', 'typeof', 'case', 'in', 'of', 'delete', 'void', 'throw', 'new',
    'else', 'do', 'await', 'yield', 'instanceof']);

  const at = (regex, text, i) => { regex.lastIndex = i; return regex.exec(text); };

  // The clause of an import statement as a pattern for const.
  function pattern(clause) {
    const all = /^(?:([\w$]+)\s*,\s*)?\*\s*as\s+([\w$]+)$/.exec(clause);
    if (all)
      return all[1] ? [`{default:${all[1]}}`, all[2]] : [all[2]];
    const parts = /^(?:([\w$]+)\s*,?\s*)?(?:\{([^]*)\})?$/.exec(clause);
    if (!parts || /^type\s/.test(clause))
      return null;
    const names = (parts[2] || '').split(',').map(s => s.trim()).filter(s => s && !/^type\s/.test(s))
      .map(s => s.replace(/\s+as\s+/, ':'));
    return [`{${(parts[1] ? [`default:${parts[1]}`] : []).concat(names).join(',')}}`];
  }

  function statement(found) {
    const [text, clause, from, attributes] = found;
    const lines = '\n'.repeat(text.split('\n').length - 1);
    const load = `await __kernel.load(${from}${attributes ? `,{with:${attributes}}` : ''})`;
    if (clause === undefined)
      return load + ';' + lines;
    const names = pattern(clause.trim());
    if (names === null)
      return /^type\s/.test(clause) ? lines : text;
    return `const ${names.map((n, i) => `${n}=${i ? names[0] && '__kernel.last' : load}`).join(',')};` + lines;
  }

  // Returns the end of the template that begins at @i; the code within it is appended to @out.
  function template(text, i, out) {
    let from = i++;
    while (i < text.length && text[i] !== '`') {
      if (text[i] === '\\') {
        i += 2;
      } else if (text[i] === '$' && text[i + 1] === '{') {
        out.push(text.slice(from, i + 2));
        from = i = scan(text, i + 2, out, true);
      } else {
        i++;
      }
    }
    out.push(text.slice(from, i + 1));
    return i + 1;
  }

  // Appends code from @i on to @out; within a template, up to the brace that closes it.
  function scan(text, i, out, inner) {
    let depth = 0, value = false, start = true, dot = false;
    while (i < text.length) {
      const space = at(SPACE, text, i)[0];
      if (space) {
        out.push(space);
        start ||= space.includes('\n');
        i += space.length;
        continue;
      }
      const c = text[i];
      let found;
      if (c === '`') {
        i = template(text, i, out);
        value = true;
      } else if ((found = at(STRING, text, i)) || (c === '/' && !value && (found = at(REGEX, text, i)))) {
        out.push(found[0]);
        i += found[0].length;
        value = true;
      } else if ((found = at(WORD, text, i))) {
        let word = found[0], next = i + word.length, fixed = word;
        if (word === 'import' && !dot) {
          const after = next + at(SPACE, text, next)[0].length;
          if (text[after] === '(')
            fixed = '__kernel.load';
          else if (text[after] === '.')
            fixed = '__kernel';
          else if (start && depth === 0 && !inner && (found = at(STATIC, text, i)))
            fixed = statement(found), next = i + found[0].length;
        } else if (word === 'export' && start && depth === 0 && !inner && !dot) {
          const gone = /export\s+(?:default\s+)?(?=async\b|function\b|class\b|const\b|let\b|var\b)/y;
          if ((found = at(gone, text, i)))
            fixed = '', next = i + found[0].length;
        }
        out.push(fixed);
        i = next;
        value = !BEFORE_VALUE.has(word);
      } else {
        depth += '([{'.includes(c) ? 1 : ')]}'.includes(c) ? -1 : 0;
        if (inner && depth < 0)
          return i;
        out.push(c);
        i++;
        value = c === ')' || c === ']' || c === '}' || /[0-9]/.test(c);
      }
      start = c === ';' || c === '}';
      dot = c === '.' && text[i - 2] !== '.';
    }
    return i;
  }

  function rewrite(text) {
    if (!/\b(?:import|export)\b/.test(text))
      return text;
    const out = [];
    scan(text, 0, out, false);
    return out.join('');
  }
  globalThis.__kernel = { rewrite };
})();
