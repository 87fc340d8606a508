import type { Answer } from '../../api/client.ts';
import { joinedText } from './joined-ids.ts';

export type Regulation = Answer<'/api/v1/regulations/{id}', 'get'>;

const TITLES: Readonly<Record<Regulation['type'], readonly [verb: string, done: string]>> = {
  SUPPRESS_WITH_DELETE: ['Delete and suppress', 'erased, and new calls are stored nowhere'],
  DELETE_ONLY: ['Delete', 'erased; new calls are stored again'],
  SUPPRESS_ONLY: ['Suppress', 'new calls are stored nowhere; what is stored stays'],
  UNSUPPRESS: ['Unsuppress', 'new calls are stored again'],
};

/** A regulation as a title: `Delete and suppress 2 users`. */
export function titleOf({ type, subjects }: Pick<Regulation, 'type' | 'subjects'>, noun = 'user'): string {
  return `${TITLES[type][0]} ${subjects.toLocaleString('en')} ${noun}${subjects === 1 ? '' : 's'}`;
}

export function effectOf(type: Regulation['type']): string {
  return TITLES[type][1];
}

/** Tells whether a regulation erases stored data. */
export function isErasing(type: Regulation['type']): boolean {
  return type === 'SUPPRESS_WITH_DELETE' || type === 'DELETE_ONLY';
}

/** Number of endpoints that have confirmed all their notifications, and number of endpoints. */
export function confirmationsOf({ streamStatus }: Pick<Regulation, 'streamStatus'>): {
  readonly confirmed: number;
  readonly all: number;
} {
  const confirmed = streamStatus.filter((one) => one.confirmed === one.sent && one.status === 'FINISHED');
  return { confirmed: confirmed.length, all: streamStatus.length };
}

/** Time at which the data was erased, and where from: a database keeps copies of its tables for a while. */
export function goneText({ erasedAt = '', erasedFrom }: Pick<Regulation, 'erasedAt' | 'erasedFrom'>): string {
  if (erasedFrom !== 'tables') return erasedAt;
  return `${erasedAt}, from the tables of the database; its write-ahead log, archives, standbys and base backups keep copies until they are recycled or removed`;
}

/**
 * The receipt as text, to be kept with a request of a user. It has no user id, like the regulation itself.
 */
export function receiptText(regulation: Regulation): string {
  const { id, type, overallStatus, createdAt, erasedAt, finishedAt, by, subjects, unknown } = regulation;
  const { belongToUsers, leftOut, erased, profiles, streamStatus, reason } = regulation;
  const joined = joinedText(regulation);
  const { confirmed, all } = confirmationsOf(regulation);
  const rows: readonly (readonly [string, string | number | undefined])[] = [
    ['Regulation', id],
    ['Kind', type],
    ['Users', subjects],
    ...((unknown ?? 0) > 0 ? [['Ids that name nobody', unknown!] as [string, number]] : []),
    ...(belongToUsers === undefined
      ? []
      : [['Anonymous ids that belong to users, of whom nothing is done', belongToUsers] as [string, number]]),
    ['Joined ids', joined === '' ? undefined : joined],
    ['UserIds left out, because client sources alone have joined them', leftOut],
    ['Asked for', `${createdAt} by ${by}`],
    ['Status', overallStatus],
    ['Erased', erasedAt === undefined ? undefined : goneText(regulation)],
    ['Finished', finishedAt],
    ['Reason', reason],
    ['Events erased', erased.events],
    ['Pending deliveries erased', erased.deliveries],
    ['Dead letters erased', erased.deadLetters],
    ['Profiles erased', profiles],
    ['Endpoints that confirmed', `${confirmed} of ${all}`],
    ...streamStatus.map(
      ({ source, destination, endpoint, status, confirmedAt }): readonly [string, string] => [
        `  ${destination} (${source})`,
        `${endpoint} ${confirmedAt === undefined ? status.toLowerCase() : `confirmed ${confirmedAt}`}`,
      ],
    ),
  ];
  const lines = rows.flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${value}`]));
  return ['Receipt of erasure', ...lines, ''].join('\n');
}
