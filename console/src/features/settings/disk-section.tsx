import type { Status } from '../../api/queries.ts';
import { bytes } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { type State, StateMark } from '../../ui/state-mark.tsx';
import { type Fact, Facts } from './facts.tsx';
import './disk-section.css';

type Disk = NonNullable<Status['disk']>;

const PARTS = {
  store: 'Store',
  writeAheadLog: 'Write-ahead log',
  profiles: 'Profiles',
  timeline: 'Timeline',
  other: 'Other files',
} as const satisfies Record<keyof Disk['parts'], string>;

/**
 * Shares of the disk that should stay free: an alert is sent below the first, and calls are refused soon
 * below the second.
 */
const LITTLE = 0.05;
const TOO_LITTLE = 0.01;

/** Free space of the disk, and the space of the data folder. */
export function DiskSection({ disk }: { readonly disk: Disk }) {
  const { size, free, used, parts, limit } = disk;
  const others = Math.max(0, size - free - used);
  const facts: Fact[] = [
    ['Data folder', <b key="used">{bytes(used)}</b>],
    ...Object.entries(PARTS).flatMap(([part, name]): Fact[] => {
      const taken = parts[part as keyof Disk['parts']];
      return taken === undefined ? [] : [[name, bytes(taken)]];
    }),
    ['Everything else on this disk', bytes(others)],
    ...(limit === undefined ? [] : [['Events may take at most', bytes(limit)] satisfies Fact]),
  ];
  return (
    <Section title="Disk" about="of the data folder">
      <div className="box">
        <div className="pad stack-s">
          <StateMark state={stateOf(disk)} label={`${bytes(free)} free of ${bytes(size)}`} />
          <div className="disk-bar" aria-hidden="true">
            <i className="disk-own" style={{ width: percent(used / size) }} />
            <i className="disk-others" style={{ width: percent(others / size) }} />
          </div>
          <Facts facts={facts} areFigures />
        </div>
      </div>
    </Section>
  );
}

function stateOf({ free, size }: Disk): State {
  if (free < size * TOO_LITTLE) return 'failing';
  return free < size * LITTLE ? 'unusual' : 'healthy';
}

function percent(part: number): string {
  return `${(part * 100).toFixed(2)}%`;
}
