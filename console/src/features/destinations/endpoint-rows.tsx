import { useQuery } from '@tanstack/react-query';
import { Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { Num, RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { adviceFor } from '../events/reasons.ts';
import { stateOf } from './destination-state.tsx';
import type { Destination } from './form.ts';
import { type Bar, endpointBarsQuery } from './history.ts';
import type { DestinationStatus } from './queries.ts';
import { sum } from './rows.ts';
import './endpoint-rows.css';
import '../../ui/table.css';

export interface HealthProps {
  readonly destination: Destination;
  readonly status: DestinationStatus;
}

export function Endpoints({ destination, status }: HealthProps) {
  const { success } = destination.settings;
  const { data: bars } = useQuery(endpointBarsQuery(destination.name));
  return (
    <Section
      title="Endpoints"
      about={
        status.endpoints.length > 1 &&
        (success === 'any' ? 'one accepted request delivers' : 'each is a delivery of its own')
      }
    >
      <div className="box bleed">
        <table className="tbl">
          <tbody>
            {status.endpoints.map((endpoint) => (
              <EndpointRow
                key={endpoint.endpoint}
                endpoint={endpoint}
                bars={bars?.get(endpoint.endpoint) ?? []}
              />
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

type Endpoint = DestinationStatus['endpoints'][number];

interface EndpointRowProps {
  readonly endpoint: Endpoint;
  readonly bars: readonly Bar[];
}

function EndpointRow({ endpoint: given, bars }: EndpointRowProps) {
  const { endpoint, state, since, lastError, lastAcceptedAt, attempts } = given;
  return (
    <tr className="tall">
      <td className="w">
        <span className="mono med">{visibleLine(endpoint)}</span>
        <span className="soft below">
          {state === 'failing' && lastError !== undefined ? (
            <>
              {adviceFor(lastError.reason).cause}
              {lastError.answer !== undefined && ` It says “${visibleLine(lastError.answer, 120)}”.`}
            </>
          ) : lastAcceptedAt === undefined ? (
            'No request was accepted yet.'
          ) : (
            <>
              Accepted the last one <RelativeTime at={lastAcceptedAt} />.
            </>
          )}
        </span>
      </td>
      <td>
        <StateMark state={stateOf({ state, endpoints: [given] })} />
        {since !== undefined && (
          <span className="dim below">
            <RelativeTime at={since} />
          </span>
        )}
      </td>
      <td className="c-md day-cell">
        <Ticks bars={bars} />
      </td>
      <td className="r c-lo">
        <Num value={sum(attempts)} /> <span className="dim">requests</span>
        {state === 'failing' && lastError !== undefined && (
          <span className="mono below">{lastError.reason}</span>
        )}
      </td>
    </tr>
  );
}

const TICKS: Readonly<Record<Bar, string>> = { none: 'none', fine: '', some: 'some', all: 'all' };

/** 24 hours in bars of 20 minutes: higher and redder where requests failed. */
function Ticks({ bars }: { readonly bars: readonly Bar[] }) {
  const bad = bars.filter((bar) => bar === 'all').length;
  const some = bars.filter((bar) => bar === 'some').length;
  return (
    <div
      className="ticks"
      title={`24 hours: in ${bad} of ${bars.length} bars everything failed, in ${some} something`}
    >
      {bars.map((bar, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a bar has no identity but its place.
        <i key={nth} className={TICKS[bar]} />
      ))}
    </div>
  );
}
