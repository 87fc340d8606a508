import { useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { answer, api, sentence } from '../../api/client.ts';
import type { Status } from '../../api/queries.ts';
import { Button } from '../../ui/controls.tsx';
import { duration, exactNumber, plural } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { StateMark, toneOf } from '../../ui/state-mark.tsx';
import { useNow } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { isTroubled, troubledSince } from '../destinations/destination-state.tsx';
import { reasonSentence } from '../events/reasons.ts';
import { reasons } from './ledger-terms.ts';
import '../../ui/need.css';

type Lane = Status['lanes'][string];

/** Destinations that fail or refuse, what they answer, how much waits, and what to do. */
export function NeedsAPerson({ status }: { readonly status: Status }) {
  const lanes = Object.entries(status.lanes);
  const troubled = lanes.filter(([, lane]) => isTroubled(lane));
  return (
    <Section
      title="Needs a person"
      about={`${troubled.length} of ${plural(lanes.length, 'destination')}`}
      aside={
        <Link to="/destinations" className="link">
          All destinations
        </Link>
      }
    >
      <div className="box bleed">
        {troubled.length === 0 ? (
          <p className="soft need-none">
            <StateMark state="healthy" label="Nothing does." /> Every destination takes what it is sent.
          </p>
        ) : (
          troubled.map(([name, lane]) => (
            <Need key={name} name={name} lane={lane} dead={reasons(status.destinations[name]?.dead ?? {})} />
          ))
        )}
      </div>
    </Section>
  );
}

interface NeedProps {
  readonly name: string;
  readonly lane: Lane;
  /** Dead letters. */
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

/** A length of time that runs: since `from`, or until `to`. */
function Span({ from, to }: { readonly from?: string; readonly to?: string }) {
  const now = useNow();
  const length = from === undefined ? Date.parse(to ?? '') - now : now - Date.parse(from);
  return <b>{duration(Math.max(0, Math.round(length / 1000) * 1000))}</b>;
}

/** Sends an example of an event to every endpoint, and says what they answered. */
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
