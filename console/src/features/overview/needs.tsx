import { useQueries, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { answer, api, sentence } from '../../api/client.ts';
import type { Status } from '../../api/queries.ts';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { duration, exactNumber, plural } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { StateMark, toneOf } from '../../ui/state-mark.tsx';
import { useNow } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { isTroubled, troubledSince } from '../destinations/destination-state.tsx';
import { own } from '../destinations/rows.ts';
import { reasonSentence } from '../events/reasons.ts';
import { reasons } from './ledger-terms.ts';
import { keptDeadQuery } from './queries.ts';
import '../../ui/need.css';

type Lane = Status['lanes'][string];

/** Shows destinations that fail or refuse: their answers, how much waits, and what to do. */
export function NeedsAPerson({ status }: { readonly status: Status }) {
  const lanes = Object.entries(status.lanes);
  const troubled = lanes.filter(([, lane]) => isTroubled(lane));
  const left = useDeadLetters(
    lanes.flatMap(([name, lane]) => {
      const dead = reasons(own(status.destinations, name)?.dead ?? {});
      return isTroubled(lane) || dead === 0 ? [] : [{ name, dead }];
    }),
  );
  return (
    <Section
      title="Needs a person"
      about={`${troubled.length + left.length} of ${plural(lanes.length, 'destination')}`}
      aside={
        <Link to="/destinations" className="link">
          All destinations
        </Link>
      }
    >
      <div className="box bleed">
        {troubled.length + left.length === 0 ? (
          <p className="soft need-none">
            <StateMark state="healthy" label="Nothing does." /> Every destination takes what it is sent.
          </p>
        ) : (
          <>
            {troubled.map(([name, lane]) => (
              <Need
                key={name}
                name={name}
                lane={lane}
                dead={reasons(own(status.destinations, name)?.dead ?? {})}
              />
            ))}
            {left.map((one) => (
              <DeadLetters key={one.name} {...one} />
            ))}
          </>
        )}
      </div>
    </Section>
  );
}

interface Dead {
  readonly name: string;
  readonly dead: number;
}

/** Most destinations whose dead letters are looked up. */
const MOST_LOOKED_AT = 20;

/**
 * Destinations with dead letters that can still be sent again. The ledger counts dead letters forever, also
 * those that are gone.
 */
function useDeadLetters(counted: readonly Dead[]): Dead[] {
  const asked = counted.slice(0, MOST_LOOKED_AT);
  const answers = useQueries({ queries: asked.map(({ name }) => keptDeadQuery(name)) });
  return asked.filter((_, nth) => answers[nth]?.data === true);
}

/** Shows a healthy destination that has dead letters from before. */
function DeadLetters({ name, dead }: Dead) {
  const mayEdit = useMay('editor');
  return (
    <article className="need">
      <StateMark state="dead" label={null} />
      <h3>{visibleLine(name, 60)}</h3>
      <div className="facts">
        <span>
          <b>{exactNumber(dead)}</b> dead
        </span>
      </div>
      <p>It takes what it is sent now. What died before stays until somebody sends it once more.</p>
      <div className="acts">
        {mayEdit && (
          <Link
            to="/destinations/$name"
            params={{ name }}
            search={{ tab: 'deliveries', state: 'dead', do: 'redeliver' }}
            className="btn"
          >
            Redeliver…
          </Link>
        )}
        <Link
          to="/destinations/$name"
          params={{ name }}
          search={{ tab: 'deliveries', state: 'dead' }}
          className="btn"
        >
          Open
        </Link>
      </div>
    </article>
  );
}

interface NeedProps {
  readonly name: string;
  readonly lane: Lane;
  /** Number of dead letters. */
  readonly dead: number;
}

function Need({ name, lane, dead }: NeedProps) {
  const { state, lastError, held, onDisk, nextProbeAt, oldestKeptUntil } = lane;
  const since = troubledSince(lane);
  const endpoint = lane.endpoints.find((one) => one.state === 'failing') ?? lane.endpoints[0];
  const status = endpoint?.lastError?.status;
  const said = endpoint?.lastError?.answer;
  return (
    <article className="need">
      <StateMark state={state} label={null} />
      <h3>
        {visibleLine(name, 60)} <span className="mono soft">{visibleLine(endpoint?.endpoint ?? '', 80)}</span>
      </h3>
      <div className="facts">
        {since !== undefined && (
          <span className={toneOf(state, 1)}>
            {state} for <Span from={since} />
          </span>
        )}
        <span>
          {status === undefined ? (
            <b>{lastError?.reason}</b>
          ) : (
            <>
              answers <b>{status}</b>
            </>
          )}
          {said !== undefined && said !== '' && ` “${visibleLine(said, 40)}”`}
        </span>
        {dead > 0 && (
          <span>
            <b>{exactNumber(dead)}</b> dead
          </span>
        )}
        <span>
          <b>{exactNumber(held + onDisk)}</b> wait
        </span>
        {nextProbeAt !== undefined && (
          <span>
            next probe in <Span to={nextProbeAt} />
          </span>
        )}
        {held + onDisk > 0 && oldestKeptUntil !== undefined && (
          <span>
            the oldest is kept for <Span to={oldestKeptUntil} />
          </span>
        )}
      </div>
      <p>{lastError === undefined ? 'It has not answered yet.' : reasonSentence(lastError.reason)}</p>
      <div className="acts">
        <TestButton name={name} />
        <Link to="/destinations/$name" params={{ name }} className="btn">
          Open
        </Link>
      </div>
    </article>
  );
}

/** A running duration: since `from`, or until `to`. */
function Span({ from, to }: { readonly from?: string; readonly to?: string }) {
  const now = useNow();
  const length = from === undefined ? Date.parse(to ?? '') - now : now - Date.parse(from);
  return <b>{duration(Math.max(0, Math.round(length / 1000) * 1000))}</b>;
}

/** Button that sends an example event to every endpoint and shows the answers. */
function TestButton({ name }: { readonly name: string }) {
  const [isBusy, setIsBusy] = useState(false);
  const queryClient = useQueryClient();
  const test = async (): Promise<void> => {
    setIsBusy(true);
    try {
      const call = api.POST('/api/v1/destinations/{name}/test', { params: { path: { name } }, body: {} });
      toast(`${name}: ${summary(await answer(call))}`);
      await queryClient.invalidateQueries({ queryKey: ['status'] });
    } catch (error) {
      toast(sentence(error));
    }
    setIsBusy(false);
  };
  return (
    <Button disabled={isBusy} onClick={() => void test()}>
      Send test
    </Button>
  );
}

interface TestResult {
  readonly data: readonly { readonly outcome: string; readonly reason: string }[];
}

function summary({ data }: TestResult): string {
  return data.map(({ outcome, reason }) => `${outcome}, ${reason}`).join('; ');
}
