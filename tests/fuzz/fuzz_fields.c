/* JSON text of a stranger: scan, parse, check against every operation's rows and their rules; query text by
 * every row; what is accepted must come through a second time unchanged. The first byte picks the operation.
 */
#include "lib/op/op.h"
#include "lib/schema/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct op *pick(uint8_t number)
{
    size_t count = 0;

    do
        count++;
    while (ops[count]);
    return ops[number % count];
}

static void check_again(const struct op *op, const json_t *checked)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *again = NULL;

    if (field_check(op->params, "body", NULL, checked, &again, &err) < 0 || !json_equal(again, checked))
        abort();
}

static void check_whole(const struct op *op, const json_t *in)
{
    const struct config config = { .driver = (char *)"local" };
    _cleanup_error_ struct error err = ERROR_INIT, rule = ERROR_INIT;
    json_auto_t *checked = NULL;
    char digest[ID_HASH_SIZE];

    if (field_check(op->params, "body", NULL, in, &checked, &err) < 0) {
        json_decref(error_to_json(&err));
        return;
    }
    check_again(op, checked);
    if (op->check && op->check(&config, checked, &rule) == 0)
        check_again(op, checked);
    op_digest(op, checked, digest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *in = NULL;
    const struct op *op;

    if (size < 1)
        return 0;
    op = pick(data[0]);
    for (const struct field *row = op->params; row->name; row++)
        json_decref(field_from_text(row, (const char *)data + 1, size - 1));
    in = field_parse_json((const char *)data + 1, size - 1, &err);
    if (in)
        check_whole(op, in);
    return 0;
}
