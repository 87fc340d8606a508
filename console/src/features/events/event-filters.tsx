import { getRouteApi } from '@tanstack/react-router';
import { Search, X } from 'lucide-react';
import { type FormEvent, useRef, useState } from 'react';
import { type IdParameters, parametersOfTyped, typedOf } from '../../api/ids.ts';
import { serverNow } from '../../api/server-time.ts';
import { Button, Select, TextInput } from '../../ui/controls.tsx';
import { dateTime } from '../../ui/format.ts';
import { JsonSwitch } from '../../ui/json-switch.tsx';
import { usePreferences } from '../../ui/preferences.ts';
import { useShortcut } from '../../ui/shortcuts.ts';
import { CallFilters } from './call-filters.tsx';

const route = getRouteApi('/shell/events');

/** Removes the id of the last search from the address. */
const NO_ID: IdParameters = { userId: '', anonymousId: '', userIdJson: '', anonymousIdJson: '' };

/** Filters of the list of stored events; all of them are in the address. */
export function EventFilters() {
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const field = useRef<HTMLInputElement>(null);
  const { kind, text, isJson: wasJson } = typedOf(filter);
  const [isJson, setIsJson] = useState(wasJson);
  useShortcut('/', 'Search', () => field.current?.focus());
  const set = (change: Readonly<Record<string, string>>): void =>
    void navigate({ search: (before) => ({ ...before, ...change }) });
  const onSubmit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const typed = (name: string): string => String(form.get(name));
    const id = parametersOfTyped({ kind, text: typed('id'), isJson });
    set({ ...NO_ID, ...id, event: typed('event'), messageId: typed('messageId') });
  };
  const { event, messageId } = filter;
  return (
    <form className="rowx" onSubmit={onSubmit} key={JSON.stringify([text, event, messageId])}>
      <TextInput
        ref={field}
        isSmall
        className="filter-field"
        name="id"
        before={<Search className="i" aria-hidden />}
        after={<kbd>/</kbd>}
        aria-label={kind}
        placeholder={kind}
        defaultValue={text}
      />
      <JsonSwitch isJson={isJson} onChange={setIsJson} />
      <TextInput
        isSmall
        className="filter-field"
        name="event"
        aria-label="Event; * at the end of its name matches any rest"
        placeholder="Event, or Order*"
        defaultValue={event}
      />
      <TextInput
        isSmall
        className="filter-field"
        name="messageId"
        aria-label="messageId"
        placeholder="messageId"
        defaultValue={messageId}
      />
      <CallFilters filter={filter} set={set} />
      <TimeFilter filter={filter} set={set} />
      <Button type="submit">Search</Button>
    </form>
  );
}

/** Choices of how far to look back, in milliseconds. */
const SPANS: Readonly<Record<string, number>> = {
  'Last 15 minutes': 900_000,
  'Last hour': 3_600_000,
  'Last 24 hours': 86_400_000,
  'Last 7 days': 7 * 86_400_000,
};

interface TimeFilterProps {
  readonly filter: { readonly from?: string; readonly to?: string };
  readonly set: (change: { readonly from: string; readonly to: string }) => void;
}

/**
 * Filter by time of arrival. The choice becomes a fixed time in the address, so that a copied link shows the
 * same events.
 */
function TimeFilter({ filter: { from, to }, set }: TimeFilterProps) {
  const { zone } = usePreferences();
  if (from === undefined && to === undefined) {
    return (
      <Select
        aria-label="Received"
        value=""
        options={['Any time', ...Object.keys(SPANS)].map((label) => ({
          value: label === 'Any time' ? '' : label,
          label,
        }))}
        onChange={(label) => set({ from: new Date(serverNow() - (SPANS[label] ?? 0)).toISOString(), to: '' })}
      />
    );
  }
  const text = (time: string): string => dateTime(Date.parse(time), zone).replace(/\.\d{3}/, '');
  return (
    <Button onClick={() => set({ from: '', to: '' })} title="Any time">
      {from !== undefined && `from ${text(from)} `}
      {to !== undefined && `to ${text(to)}`}
      <X aria-hidden />
    </Button>
  );
}
