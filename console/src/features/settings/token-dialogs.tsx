import { ApiError, sentence } from '../../api/client.ts';
import { type NewRecordForm, useKeptForm } from '../../editing/use-kept-form.ts';
import { Button, CopyButton, Segmented } from '../../ui/controls.tsx';
import { ConfirmDialog, Dialog, FormDialog } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/empty-state.tsx';
import { TextField } from '../../ui/form-fields.tsx';
import { toast } from '../../ui/toast.tsx';
import { type NewToken, type Token, useCreateToken, useRevokeToken } from './queries.ts';

export const ROLES =
  'A viewer reads everything but tokens. An editor also changes records, redelivers and replays. An admin also makes tokens, backups and deletions.';

type TokenDraft = Pick<Token, 'name' | 'role'>;

const NEW_TOKEN: NewRecordForm<TokenDraft> = { key: 'tokens?new', blank: { name: '', role: 'viewer' } };

export function NewTokenDialog({ onClose }: { readonly onClose: () => void }) {
  const { draft, put, forget } = useKeptForm(NEW_TOKEN);
  const { name, role } = draft;
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
        await create.mutateAsync({ name: name.trim(), role });
        forget();
      }}
      onClose={close}
    >
      <TextField
        label="Name"
        hint="Of the person or the program; the trail of changes names it."
        error={create.error === null ? undefined : (fault ?? sentence(create.error))}
        value={name}
        onChange={(next) => put({ name: next, role })}
      />
      <Segmented
        label="Role"
        value={role}
        options={[
          { value: 'viewer', label: 'viewer' },
          { value: 'editor', label: 'editor' },
          { value: 'admin', label: 'admin' },
        ]}
        onChange={(next) => put({ name, role: next })}
      />
      <p className="hint">{ROLES}</p>
    </FormDialog>
  );
}

/** The only place where a token is ever shown. */
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
