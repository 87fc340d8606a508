import { type Client, type Facts, titleOf } from './client.ts';
import { expected } from './expectations.ts';
import { CASES, type CaseName, RETRY_AFTER } from './faults.ts';

/** The columns, in two tables so that each fits on a page. */
const TABLES: readonly { readonly heading: string; readonly cases: readonly CaseName[] }[] = [
  {
    heading: 'What the server, or something in front of it, answers',
    cases: ['none', 'slow', 'tooMany', 'unavailable', 'outage', 'refused', 'unknownKey'],
  },
  {
    heading: 'Connections that fail',
    cases: ['hangBefore', 'hangAfter', 'resetBefore', 'resetAfter', 'cut', 'twice'],
  },
];

/** Begins the one line that may differ from run to run. */
const RUN_LINE = 'Last written ';

export interface Run {
  /** `2026-11-21`. */
  readonly date: string;
  readonly node: string;
  readonly chromium: string | undefined;
}

/**
 * The whole page. `factsOf` is what a client has shown; where it has none (a client that could not run here)
 * the row is what is expected of it, which a run that can has to confirm.
 */
export function page(
  clients: readonly Client[],
  factsOf: (client: Client, name: CaseName) => Facts | undefined,
  { date, node, chromium = 'none' }: Run,
): string {
  const notes: string[] = [];
  const cell = (client: Client, name: CaseName): string => {
    const { note, ...promised } = expected(client, name);
    return `${words(factsOf(client, name) ?? promised)}${note === undefined ? '' : ` [${numberOf(note, notes)}]`}`;
  };
  const tables = TABLES.map(({ heading, cases }) => {
    const head = ['client', ...cases.map((name) => CASES[name].title)];
    const rows = clients.map((client) => [titleOf(client), ...cases.map((name) => cell(client, name))]);
    return `## ${heading}\n\n${[head, head.map(() => '---'), ...rows].map(row).join('\n')}\n`;
  });
  return [
    INTRODUCTION,
    `${RUN_LINE}${date}, with Node ${node} and Chromium ${chromium}.\n`,
    ...tables,
    '## Notes\n',
    ...notes.map((note, at) => `${at + 1}. ${note}`),
    '',
  ].join('\n');
}

/** A page without what may differ from run to run. */
export function lasting(text: string): string {
  return text.replace(new RegExp(`^${RUN_LINE}.*$`, 'm'), '');
}

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

function words({ tries, lost, told, reloaded }: Facts): string {
  const fate = lost ? (told ? 'lost' : 'lost silently') : 'once';
  return tries === 1 ? fate : `${fate}, ${tries}${reloaded ? ' or more' : ''} tries`;
}

/** The number a note has, or gets. */
function numberOf(note: string, notes: string[]): number {
  const known = notes.indexOf(note);
  return known < 0 ? notes.push(note) : known + 1;
}

const INTRODUCTION = `# Compatibility with client libraries

## How a client finds the server

| client | options |
| --- | --- |
| analytics-node | \`new Analytics(writeKey, { host: 'https://events.example.com' })\` |
| @segment/analytics-node | \`new Analytics({ writeKey, host: 'https://events.example.com' })\` |
| @segment/analytics-next | \`AnalyticsBrowser.load({ writeKey, cdnURL: 'https://events.example.com' })\`: the settings that the library asks for there tell it where to send |

A page can also say itself where calls go, as the second argument of \`load\`:
\`{ integrations: { 'Segment.io': { apiHost: 'events.example.com/v1' } } }\`, with \`protocol: 'http'\` beside it where there is
no https. Before 1.84, batches go to https whatever is said.

## What is tested

Published client libraries, unmodified and told by their documented options alone where the server is, make one call of
each type (identify, track, page, screen, group, alias) to the real program with its store on disk. A proxy in front of
it plays one fault to the first request; everything else passes. At the other end a receiver verifies each webhook: its
signature, every byte of its body, and that each call arrives.

The tables below are of the three libraries that this suite runs at every change. By hand, 29 published libraries of ten languages were run
against the program in November 2026, unmodified: each finds the server by the option that it has for the address.

Beyond the tables, each client for Node makes sixty calls under a storm of faults, up to three to a request: each call
arrives once. At the end of a run the server's ledger must count exactly what the proxies have seen: every call sent again
is a duplicate, every other one was delivered once. Pages that know \`cdnURL\` alone send to a server that is told nothing, over
http and over https, single calls, batches and an image (the pixel).

This page is made by that suite: \`npm run test:clients\` fails when a fact here is no longer true, and
\`npm run test:clients -- --update\` writes it anew.

- **once**: delivered exactly once. **once, 2 tries**: the client sent it twice, and it was still delivered exactly once.
- **lost**: the client gave the call up, and said so (by its callback or its error event). **lost silently**: it said
  nothing. Nothing the server has acknowledged is ever lost; these calls were never acknowledged.
- **received** or **not received**: whether the request had reached the server before the connection failed. If it had,
  the server has stored it, and the client cannot know that: the case in which every honest client sends twice.
- The 429 asks for ${RETRY_AFTER} seconds with \`Retry-After\` and \`X-RateLimit-Reset\`. **answer cut off**: status 200,
  half of the body, and the connection ends. **forwarded twice**: the proxy sends the request on twice at the same moment, as a
  load balancer may.
- Browsers get a new connection for each request here: on one it has used before, Chromium itself sends again what breaks,
  and would hide what the library does.
`;
