import catalogue from '../spec/errors.json' with { type: 'json' };

interface Entry {
  readonly status?: number;
  readonly message: string;
  readonly hint: string;
}

/** The parts of the catalogue in the order in which an event meets them, each with its subject. */
const PARTS: readonly [part: keyof typeof catalogue, title: string, about: string][] = [
  [
    'request',
    'The receiving API refuses a request',
    '`code` of an answer to a client. The source whose key it carries counts it as discarded; without one `GET /api/v1/status` counts it. 404, 405 and 500 of the control API have the same codes.',
  ],
  [
    'discard',
    'A call is discarded',
    'The reason in the ledger, in `GET /api/v1/discards` and in a trace; with a status also the `code` of the answer to a single call, ' +
      'or of an entry of `errors`.',
  ],
  ['skip', 'A destination does not get an event', 'The reason in `skipped` of the ledger and of a trace.'],
  ['outcome', 'A request to an endpoint fails', 'The `reason` of an attempt, and in `lastError`.'],
  [
    'drop',
    'A delivery is dropped',
    'The reason of a delivery that the type of its destination sent nothing for; the note beside it says why.',
  ],
  [
    'dead',
    'A delivery is given up',
    'The `reason` of a dead letter, beside the outcomes above, for what is not tried again.',
  ],
  [
    'control',
    'The control API refuses a request',
    '`code` of a problem (`application/problem+json`); the end of `detail` is the hint, often with the names of what there is.',
  ],
];

const HEAD = `# Errors

Every code that Millrace says, made from [\`spec/errors.json\`](../../spec/errors.json) by \`npm run generate\`. A code never changes its
meaning and is never used for another one, so programs may look at it; the sentences may change.
`;

/** `docs/reference/errors.md`. */
export function errorsReference(): string {
  const sections = PARTS.map(([part, title, about]) => {
    const entries = Object.entries<Entry>(catalogue[part]);
    const hasStatus = entries.some(([, { status }]) => status !== undefined);
    const rows = entries.map(([code, { status, message, hint }]) =>
      [`\`${code}\``, ...(hasStatus ? [String(status ?? '')] : []), message, hint].join(' | '),
    );
    const head = ['code', ...(hasStatus ? ['status'] : []), 'what it means', 'what to do'];
    const lines = [head.join(' | '), head.map(() => '---').join('|'), ...rows].map((line) =>
      line.startsWith('---') ? `|${line}|` : `| ${line} |`,
    );
    return `\n## ${title}\n\n${about}\n\n${lines.join('\n')}\n`;
  });
  return HEAD + sections.join('');
}
