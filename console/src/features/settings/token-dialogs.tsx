import { useQuery } from '@tanstack/react-query';
import { ApiError, sentence } from '../../api/client.ts';
import { destinationsQuery, sourcesQuery } from '../../api/queries.ts';
import { serverNow } from '../../api/server-time.ts';
import { type NewRecordForm, useKeptForm } from '../../editing/use-kept-form.ts';
import { Button, CopyButton, Field, Segmented, Select } from '../../ui/controls.tsx';
import { ConfirmDialog, Dialog, FormDialog } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/empty-state.tsx';
import { Check, Checks, TextField } from '../../ui/form-fields.tsx';
import { toast } from '../../ui/toast.tsx';
import { type NewToken, type Token, type TokenRequest, useCreateToken, useRevokeToken } from './queries.ts';

export const ROLES =
  'A token for metrics reads the page for Prometheus. A viewer reads everything but tokens. An editor also changes records, redelivers and replays. An admin also makes tokens, backups and deletions.';

interface TokenDraft extends Pick<Token, 'name' | 'role'> {
  /** Days until the token ends, as text; empty: no end. */
  readonly days: string;
  /** Viewers only: the token does not show contents of events. */
  readonly isWithoutBodies: boolean;
  /** Viewers and editors only: the token is limited to these sources and destinations. */
  readonly isLimited: boolean;
  readonly sources: readonly string[];
  readonly destinations: readonly string[];
}

const NEW_TOKEN: NewRecordForm<TokenDraft> = {
  key: 'tokens?new',
  blank: {
    ...{ name: '', role: 'viewer', days: '', isWithoutBodies: false },
    ...{ isLimited: false, sources: [], destinations: [] },
  },
};

const ENDS = [
  { value: '', label: 'when it is revoked' },
  { value: '1', label: 'in a day' },
  { value: '30', label: 'in 30 days' },
  { value: '90', label: 'in 90 days' },
  { value: '365', label: 'in a year' },
];

const DAY = 86_400_000;

function requestOf(draft: TokenDraft): TokenRequest {
  const { name, role, days, sources, destinations } = draft;
  const end = days === '' ? {} : { expiresAt: new Date(serverNow() + Number(days) * DAY).toISOString() };
  return {
    name: name.trim(),
    role,
    ...end,
    ...(draft.isWithoutBodies && role === 'viewer' ? { bodies: false } : {}),
    ...(draft.isLimited && mayBeLimited(role)
      ? { sources: [...sources], destinations: [...destinations] }
      : {}),
  };
}

function mayBeLimited(role: Token['role']): boolean {
  return role === 'viewer' || role === 'editor';
}

export function NewTokenDialog({ onClose }: { readonly onClose: () => void }) {
  const { draft, put, forget } = useKeptForm(NEW_TOKEN);
  const { name, role, days } = draft;
  const create = useCreateToken();
  const close = () => {
    forget();
    onClose();
  };
  if (create.data !== undefined) return <MadeToken made={create.data} onClose={close} />;
  const fault = create.error instanceof ApiError ? create.error.fields[0]?.message : undefined;
  return (
    <FormDialog
      title="New token"
      action="Make token"
      isReady={name.trim() !== ''}
      onSubmit={async () => {
        await create.mutateAsync(requestOf(draft));
        forget();
      }}
      onClose={close}
    >
      <TextField
        label="Name"
        hint="Of the person or the program; the trail of changes names it."
        error={create.error === null ? undefined : (fault ?? sentence(create.error))}
        value={name}
        onChange={(next) => put({ ...draft, name: next })}
      />
      <Segmented
        label="Role"
        value={role}
        options={[
          { value: 'metrics', label: 'metrics' },
          { value: 'viewer', label: 'viewer' },
          { value: 'editor', label: 'editor' },
          { value: 'admin', label: 'admin' },
        ]}
        onChange={(next) => put({ ...draft, role: next })}
      />
      <p className="hint">{ROLES}</p>
      {role === 'viewer' && (
        <Check
          isChecked={draft.isWithoutBodies}
          onChange={(isWithoutBodies) => put({ ...draft, isWithoutBodies })}
        >
          Shows which events there are, and not what they hold
        </Check>
      )}
      {mayBeLimited(role) && <Limits draft={draft} put={put} />}
      <Field label="Ends">
        {(control) => (
          <Select
            {...control}
            options={ENDS}
            value={days}
            onChange={(next) => put({ ...draft, days: next })}
          />
        )}
      </Field>
    </FormDialog>
  );
}

interface LimitsProps {
  readonly draft: TokenDraft;
  readonly put: (next: TokenDraft) => void;
}

/** Fields for the sources and destinations of a token that a third party uses. */
function Limits({ draft, put }: LimitsProps) {
  const { data: sources = [] } = useQuery(sourcesQuery);
  const { data: destinations = [] } = useQuery(destinationsQuery);
  const { isLimited } = draft;
  return (
    <>
      <Check isChecked={isLimited} onChange={(next) => put({ ...draft, isLimited: next })}>
        For some sources and destinations alone, and not for the console
      </Check>
      {isLimited && (
        <>
          <p className="hint">Sources</p>
          <Checks
            names={sources.map(({ name }) => name)}
            chosen={draft.sources}
            onChange={(chosen) => put({ ...draft, sources: chosen })}
          />
          <p className="hint">Destinations</p>
          <Checks
            names={destinations.map(({ name }) => name)}
            chosen={draft.destinations}
            onChange={(chosen) => put({ ...draft, destinations: chosen })}
          />
        </>
      )}
    </>
  );
}

/** Shows a new token; nothing shows it again. */
function MadeToken({
  made: { name, token, role },
  onClose,
}: {
  readonly made: NewToken;
  readonly onClose: () => void;
}) {
  return (
    <Dialog
      title={`The token of ${name}`}
      onClose={onClose}
      foot={
        <Button kind="primary" onClick={onClose}>
          I have kept it
        </Button>
      }
    >
      <Notice tone="warn">It is shown now and never again. Whoever has it is {role} here.</Notice>
      <div className="rowx">
        <code className="mono wrap-any">{token}</code>
        <CopyButton text={token} label="Copy token" kind="plain" />
      </div>
    </Dialog>
  );
}

export function RevokeDialog({
  token: { name, role },
  onClose,
}: {
  readonly token: Token;
  readonly onClose: () => void;
}) {
  const revoke = useRevokeToken();
  return (
    <ConfirmDialog
      title={`Revoke the token of ${name}`}
      action="Revoke token"
      typed={name}
      isDangerous
      onConfirm={async () => {
        await revoke.mutateAsync(name);
        toast(`The token of ${name} is revoked.`);
      }}
      onClose={onClose}
    >
      <p>
        1 token with the role {role} works no more, at once; whoever is signed in with it is signed out. What{' '}
        {name} has changed stays, and stays in the trail.
      </p>
    </ConfirmDialog>
  );
}
