/**
 * Checks the sentences of the specification that tests quote (`quoted` in clients/e2e/sentences/quoted.ts):
 * each stands in spec/specification.md word for word, and each sentence of the chapters below has a test that
 * quotes it. So neither the page nor the tests change alone. `node tools/citations.ts` runs it.
 */

export interface TextFile {
  /** From the root, with slashes. */
  readonly path: string;
  readonly text: string;
}

const SPECIFICATION = 'spec/specification.md';

/** Headings whose sentences all need a test; with `about`, only sentences that have the word. */
const TESTED: readonly { readonly heading: string; readonly about?: RegExp }[] = [
  { heading: 'Meaning of the types', about: /\balias\b/ },
  { heading: 'Address of the client' },
  { heading: 'Suppressed users' },
  { heading: 'Documented format', about: /\balias\b|`User ID`/ },
  { heading: 'Canonical format' },
  { heading: 'Delete notification' },
  { heading: 'Regulations' },
  { heading: 'Deletion' },
  { heading: 'Suppression' },
  { heading: 'Identities' },
  { heading: 'Computed traits' },
  { heading: 'Audiences' },
  { heading: 'Computation events' },
  { heading: 'Keys of audiences' },
];

/** The call, and the literals in it. Sentences of the page have no backslash. */
const CALL = /\bquoted\(((?:\s*(?:'[^'\n]*'|"[^"\n]*"),?)+)\s*\)/g;
const LITERAL = /'([^'\n]*)'|"([^"\n]*)"/g;

/**
 * One line for each quotation that the specification does not have, and for each sentence that nobody quotes.
 */
export function wrongQuotations(files: readonly TextFile[]): string[] {
  const page = files.find(({ path }) => path === SPECIFICATION);
  if (page === undefined) return [];
  const sentences = new Set(sentencesOf(page.text, /^/));
  const quoted = files.filter(({ path }) => path.endsWith('.ts')).flatMap(quotationsIn);
  const wrong = quoted
    .filter(({ text }) => !sentences.has(text))
    .map(({ place, text }) => `${place}: ${SPECIFICATION} has no such sentence: ${text}`);
  const known = new Set(quoted.map(({ text }) => text));
  const missing = TESTED.flatMap(({ heading, about }) => {
    const all = sentencesOf(page.text, new RegExp(`^#+ ${heading}$`));
    if (all.length === 0) return [`${SPECIFICATION}: no chapter "${heading}", whose sentences tests quote`];
    return all
      .filter((sentence) => !known.has(sentence) && (about?.test(sentence) ?? true))
      .map((sentence) => `${SPECIFICATION}, "${heading}": no test quotes: ${sentence}`);
  });
  return [...wrong, ...missing];
}

interface Quotation {
  /** File and line of the call. */
  readonly place: string;
  readonly text: string;
}

function quotationsIn({ path, text }: TextFile): Quotation[] {
  return [...text.matchAll(CALL)].flatMap(({ 1: literals = '', index }) => {
    const place = `${path}:${text.slice(0, index).split('\n').length}`;
    return [...literals.matchAll(LITERAL)].map(([, single, double]) => ({
      place,
      text: single ?? double ?? '',
    }));
  });
}

/**
 * The sentences of the chapters whose heading line matches, up to the next heading; without tables, and
 * without the marks of lists and links.
 */
export function sentencesOf(page: string, heading: RegExp): string[] {
  const chapters = page.split(/^(?=#+ )/m).filter((chapter) => heading.test(chapter.split('\n', 1)[0]!));
  return chapters.flatMap((chapter) =>
    chapter
      .split('\n')
      .slice(1)
      .join('\n')
      .split(/\n{2,}|\n(?=\d+\. )/)
      .filter((paragraph) => !paragraph.trimStart().startsWith('|'))
      .flatMap(sentencesIn),
  );
}

/**
 * A sentence ends at a full stop before a capital letter or code. One that only names another page says
 * nothing to test.
 */
function sentencesIn(paragraph: string): string[] {
  return paragraph
    .replace(/^\d+\. /, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .split(/(?<=\.) (?=[A-Z`[])/)
    .filter((sentence) => sentence !== '' && !/^\[[^\]]+\]\([^)]+\) (has|says) /.test(sentence))
    .map((sentence) =>
      sentence.replaceAll(/ \(\[[^\]]*\]\([^)]*\)\)/g, '').replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1'),
    );
}
