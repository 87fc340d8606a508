import { useQuery } from '@tanstack/react-query';
import { Plus, X } from 'lucide-react';
import { useMemo } from 'react';
import { Button, Select } from '../../../ui/controls.tsx';
import { seenEventsQuery } from '../queries.ts';
import { KnownEvents } from './known-events.ts';
import { type Group, isGroup, NEW_EVENT, NEW_GROUP, type Row } from './model.ts';
import { ConditionRow } from './rows.tsx';
import './builder.css';

interface BuilderProps {
  readonly group: Group;
  readonly onChange: (group: Group) => void;
}

/** A condition on users as rows to fill in. */
export function Builder({ group, onChange }: BuilderProps) {
  const { data: seen } = useQuery(seenEventsQuery);
  const known = useMemo(() => new KnownEvents(seen ?? []), [seen]);
  return (
    <fieldset className="box builder" aria-label="Who belongs">
      <GroupRows group={group} known={known} onChange={onChange} />
    </fieldset>
  );
}

interface GroupRowsProps extends BuilderProps {
  readonly known: KnownEvents;
}

function GroupRows({ group, known, onChange }: GroupRowsProps) {
  const { join, rows } = group;
  const change = (at: number, entry: Row | Group): void => onChange({ join, rows: rows.with(at, entry) });
  const remove = (at: number): void => onChange({ join, rows: rows.toSpliced(at, 1) });
  const add = (entry: Row | Group): void => onChange({ join, rows: [...rows, entry] });
  return (
    <>
      {rows.map((entry, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a row has no identity but its place.
        <div key={at} className="crow">
          <JoinWord at={at} join={join} onChange={(word) => onChange({ join: word, rows })} />
          {isGroup(entry) ? (
            <fieldset className="box builder" aria-label={`Group ${at + 1}`}>
              <GroupRows group={entry} known={known} onChange={(inner) => change(at, inner)} />
            </fieldset>
          ) : (
            <ConditionRow row={entry} known={known} onChange={(row) => change(at, row)} />
          )}
          <Button
            kind="quiet"
            isSmall
            isIcon
            aria-label={`Remove ${isGroup(entry) ? 'group' : 'condition'} ${at + 1}`}
            onClick={() => remove(at)}
          >
            <X aria-hidden />
          </Button>
        </div>
      ))}
      <div className="crow crow-end rowx">
        <Button isSmall onClick={() => add(NEW_EVENT)}>
          <Plus aria-hidden />
          Condition
        </Button>
        <Button isSmall onClick={() => add({ ...NEW_GROUP, join: join === 'and' ? 'or' : 'and' })}>
          <Plus aria-hidden />
          Group
        </Button>
      </div>
    </>
  );
}

interface JoinWordProps {
  readonly at: number;
  readonly join: Group['join'];
  readonly onChange: (join: Group['join']) => void;
}

/** The word between two rows: chosen once for the group, and repeated below. */
function JoinWord({ at, join, onChange }: JoinWordProps) {
  if (at === 0) return <span />;
  if (at > 1) return <span className="dim">{join}</span>;
  return (
    <Select
      aria-label="Joined by"
      value={join}
      options={[
        { value: 'and', label: 'and' },
        { value: 'or', label: 'or' },
      ]}
      onChange={(word) => onChange(word as Group['join'])}
    />
  );
}
