import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { statusQuery } from '../../api/queries.ts';
import { useMay } from '../../api/roles.ts';
import { Button, Select } from '../../ui/controls.tsx';
import { Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { useSearch } from '../events/search-further.tsx';
import { DeliveryTable } from './delivery-table.tsx';
import { DELIVERY_STATES, type DeliveryState, deliveriesQuery } from './queries.ts';
import { RedeliverDialog } from './redeliver-dialog.tsx';
import { own } from './rows.ts';

const route = getRouteApi('/shell/destinations/$name');

/** The deliveries of a destination, by state and reason. */
export function Deliveries({ name }: { readonly name: string }) {
  const { state, reason, do: deed } = route.useSearch();
  const navigate = useNavigate();
  const mayEdit = useMay('editor');
  const isGivenUp = state === 'dead' || state === 'dropped';
  const hasReason = isGivenUp || state === 'retrying';
  const withReason = hasReason ? reason : undefined;
  const filter = {
    destination: name,
    ...(state === undefined ? {} : { state }),
    ...(withReason === undefined ? {} : { reason: withReason }),
  };
  const deliveries = useInfiniteQuery(deliveriesQuery(filter));
  const search = useSearch(deliveries, JSON.stringify(filter));
  const rows = deliveries.data?.pages.flatMap(({ data }) => data) ?? [];
  const change = (search: { state?: DeliveryState; reason?: string }) =>
    void navigate({
      to: '/destinations/$name',
      params: { name },
      search: { tab: 'deliveries', ...search },
      replace: true,
    });
  const ask = (isOpen: boolean): void =>
    void navigate({
      to: '/destinations/$name',
      params: { name },
      search: {
        tab: 'deliveries',
        ...(state && { state }),
        ...(reason && { reason }),
        ...(isOpen && { do: 'redeliver' }),
      },
      replace: true,
    });
  return (
    <div className="stack-s">
      <div className="rowx">
        <Select
          aria-label="State"
          value={state ?? ''}
          options={[
            { value: '', label: 'Any state' },
            ...DELIVERY_STATES.map((one) => ({ value: one, label: one })),
          ]}
          onChange={(value) => change(value === '' ? {} : { state: value as DeliveryState })}
        />
        {hasReason && (
          <ReasonChoice
            name={name}
            state={state}
            reason={reason}
            onChange={(value) => change({ state, ...(value === '' ? {} : { reason: value }) })}
          />
        )}
        {mayEdit && isGivenUp && rows.length > 0 && (
          <Button className="push" onClick={() => ask(true)}>
            Redeliver all {reason === undefined ? '' : 'of this reason '}…
          </Button>
        )}
      </div>
      {deliveries.error !== null && (
        <Failure error={deliveries.error} onRetry={() => void deliveries.refetch()} />
      )}
      {deliveries.isPending ? <SkeletonRows /> : <DeliveryTable rows={rows} search={search} />}
      {mayEdit && isGivenUp && deed === 'redeliver' && (
        <RedeliverDialog
          request={{ destination: name, state, ...(withReason === undefined ? {} : { reason: withReason }) }}
          onClose={() => ask(false)}
        />
      )}
    </div>
  );
}

interface ReasonChoiceProps {
  readonly name: string;
  readonly state: DeliveryState;
  readonly reason: string | undefined;
  readonly onChange: (reason: string) => void;
}

/** Reasons that the ledger has for this destination, and the one in the URL. */
function ReasonChoice({ name, state, reason, onChange }: ReasonChoiceProps) {
  const { data } = useQuery(statusQuery);
  const counts = own(data?.destinations, name);
  const ended = Object.keys((state === 'dropped' ? counts?.dropped : counts?.dead) ?? {});
  const errors = own(data?.lanes, name)?.endpoints.flatMap(({ lastError }) => lastError?.reason ?? []) ?? [];
  const last = state === 'dropped' ? [] : errors;
  const reasons = [...new Set([...ended, ...last, ...(reason === undefined ? [] : [reason])])];
  return (
    <Select
      aria-label="Reason"
      value={reason ?? ''}
      options={[{ value: '', label: 'Any reason' }, ...reasons.map((one) => ({ value: one, label: one }))]}
      onChange={onChange}
    />
  );
}
